import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { StateView } from "../../src/assistant/inference/control/state-view.ts";
import type { BareResult, BareRun } from "./bare-llama.ts";

const berth = join(import.meta.dirname, "../../bin/berth");

/** A server for chat completions that the benchmark measures. */
export interface Subject extends AsyncDisposable {
  readonly url: string;
}

export interface BenchDaemon extends Subject {
  readonly threads: number;
  /** Resolves when no request is running. */
  idle(): Promise<void>;
}

/** Starts `berth assistant` with one model. Resolves when the model is loaded. */
export async function startDaemon(
  model: string,
  flags: readonly string[] = [],
): Promise<BenchDaemon> {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-bench-assistant-"));
  const child = spawn(
    process.execPath,
    [berth, "assistant", "--port", "0", "--log-format", "json"].concat(
      ["--data-dir", dataDir, "--model", `m=${model}`],
      flags,
    ),
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const ready: { url: string; control_socket: string } = JSON.parse(
    await new Promise<string>((resolve, reject) => {
      child.once("exit", () => reject(new Error("the assistant did not start")));
      createInterface(child.stdout).on("line", (line) => {
        if (line.startsWith("berth ready ")) resolve(line.slice("berth ready ".length));
      });
    }),
  );
  let state = await readState(ready.control_socket);
  while (state.models[0]?.state !== "resident") {
    if (state.models[0]?.error) throw new Error(state.models[0].error.message);
    await sleep(100);
    state = await readState(ready.control_socket);
  }
  return {
    url: ready.url,
    threads: state.models[0].threads ?? 1,
    idle: async () => {
      for (;;) {
        const [loaded] = (await readState(ready.control_socket)).models;
        if (loaded?.active === 0 && loaded.queued === 0) return;
        await sleep(5);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await ended(child);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

export async function readState(socketPath: string): Promise<StateView> {
  const { request } = await import("node:http");
  return new Promise((resolve, reject) => {
    request({ socketPath, path: "/state" }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("end", () => resolve(JSON.parse(text)));
    })
      .once("error", reject)
      .end();
  });
}

/** Runs node-llama-cpp without Berth, with the model and the number of threads that Berth uses; see bare-llama.ts. */
export class BareLlama implements AsyncDisposable {
  readonly #child: ChildProcess;

  static async start(model: string, threads: number): Promise<BareLlama> {
    const child = fork(join(import.meta.dirname, "bare-llama.ts"), [model, String(threads)], {
      execArgv: ["--import", "tsx"],
      env: { ...process.env, UV_THREADPOOL_SIZE: "1" },
    });
    await once(child, "message");
    return new BareLlama(child);
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  async run(run: BareRun): Promise<BareResult> {
    const answered: Promise<[BareResult]> = once(this.#child, "message") as Promise<[BareResult]>;
    this.#child.send(run);
    const [result] = await answered;
    return result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ended(this.#child);
  }
}

/** Starts llama-server with the benchmark's model, if `LLAMA_SERVER` names the program. */
export async function startLlamaServer(
  program: string,
  model: string,
  threads: number,
): Promise<Subject> {
  const port = 18_000 + Math.floor(Math.random() * 10_000);
  const child = spawn(
    program,
    ["-m", model, "--port", String(port), "-np", "8", "-c", String(8 * 2_048)].concat([
      "-t",
      String(threads),
      "--host",
      "127.0.0.1",
    ]),
    { stdio: "ignore" },
  );
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    const health = await fetch(`${url}/health`).catch(() => undefined);
    if (health?.ok === true) break;
    if (child.exitCode !== null) throw new Error("llama-server did not start");
    await sleep(100);
  }
  return { url, [Symbol.asyncDispose]: () => ended(child) };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  await exit;
}
