import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { onTestFailed, TestRunner } from "vitest";
import type { AssistantReady } from "../../src/assistant/daemons/system-instance.ts";
import type { StateView } from "../../src/assistant/inference/control/state-view.ts";
import { endedBy, untilReady } from "./until-ready.ts";

const program = join(import.meta.dirname, "../../bin/berth");
const LOG_LINES_SHOWN = 60;

export interface ProcessResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `bin/berth` until it exits. */
export async function berth(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<ProcessResult> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

/** `bin/berth assistant --system` as a process, with its own data directory and port. */
export class AssistantProcess implements AsyncDisposable {
  readonly dataDir: string;
  readonly #flags: readonly string[];
  readonly #log: string[] = [];
  #child: ChildProcess | undefined;
  #ready: AssistantReady | undefined;

  /**
   * Starts the process. Adds `--threads 1` unless the flags set the number of threads, because tests share the
   * cores. The data directory is removed at the end, even if `--data-dir` names it.
   */
  static async start(flags: readonly string[] = []): Promise<AssistantProcess> {
    const given = flags[flags.indexOf("--data-dir") + 1];
    const dataDir =
      flags.includes("--data-dir") && given !== undefined
        ? given
        : await mkdtemp(join(tmpdir(), "berth-assistant-"));
    const daemon = new AssistantProcess(dataDir, flags);
    // A process that all tests of a file share is started outside of a test, where `onTestFailed` is not available.
    if (TestRunner.getCurrentTest() !== undefined)
      onTestFailed(() => void process.stderr.write(`${daemon.log}\n`));
    try {
      await daemon.start();
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
    return daemon;
  }

  private constructor(dataDir: string, flags: readonly string[]) {
    this.dataDir = dataDir;
    this.#flags = flags;
  }

  get ready(): AssistantReady {
    if (!this.#ready) throw new Error("the assistant has not been started");
    return this.#ready;
  }

  get pid(): number {
    return this.ready.pid;
  }

  /** The last lines that the process has printed on both output streams. */
  get log(): string {
    return this.#log.slice(-LOG_LINES_SHOWN).join("\n");
  }

  /** An openai client with default settings, but without retries, so that tests see each answer. */
  get openai(): OpenAI {
    return new OpenAI({ baseURL: `${this.ready.url}/v1`, apiKey: "any", maxRetries: 0 });
  }

  async start(): Promise<void> {
    const threads = this.#flags.includes("--threads") ? [] : ["--threads", "1"];
    const child = spawn(
      process.execPath,
      [program, "assistant", "--system", "--port", "0", "--log-format", "json"].concat(
        ["--data-dir", this.dataDir],
        threads,
        this.#flags,
      ),
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#child = child;
    this.#ready = await untilReady<AssistantReady>(child, this.#log);
  }

  /** Sends the signal to the process, and resolves to its exit result. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    const child = this.#child;
    if (!child) return null;
    this.#child = undefined;
    return endedBy(child, signal);
  }

  /** Returns the result of GET /state on the control socket. */
  async state(): Promise<StateView> {
    // The response body is not validated; a test that reads a missing field fails.
    const state: StateView = JSON.parse(await this.control("GET", "/state"));
    return state;
  }

  /** Sends a request to the control socket, and returns the body of the answer. Rejects if the status is not 2xx. */
  control(method: string, path: string, body?: unknown): Promise<string> {
    return new Promise((resolve, reject) => {
      const call = httpRequest(
        {
          socketPath: this.ready.control_socket,
          method,
          path,
          headers: body === undefined ? {} : { "content-type": "application/json" },
        },
        (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
          response.once("end", () => {
            if ((response.statusCode ?? 500) < 300) resolve(text);
            else reject(new Error(`${response.statusCode}: ${text}`));
          });
        },
      );
      call.once("error", reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
    await rm(this.dataDir, { recursive: true, force: true });
  }
}
