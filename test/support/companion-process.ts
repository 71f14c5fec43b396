import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFailed, TestRunner } from "vitest";
import type { CompanionReady } from "../../src/assistant/daemons/companion-daemon.ts";
import type { TestSessionBus } from "./test-session-bus.ts";
import { endedBy, untilReady } from "./until-ready.ts";

const program = join(import.meta.dirname, "../../bin/berth");
const LOG_LINES_SHOWN = 80;

export interface CompanionOptions {
  readonly bus: TestSessionBus;
  /** The flags of the companion; by default it uses the stub engine in its own process. */
  readonly flags?: readonly string[];
  /** Variables in addition to those of the bus and the home folder. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** `bin/berth assistant --user` as a process, with its own bus, home folder and port. */
export class CompanionProcess implements AsyncDisposable {
  /** The home folder, which contains the data, settings and runtime folders. */
  readonly home: string;
  /** The environment variables with which a program runs as the companion's user. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #flags: readonly string[];
  readonly #log: string[] = [];
  #child: ChildProcess | undefined;
  #ready: CompanionReady | undefined;

  static async start(options: CompanionOptions): Promise<CompanionProcess> {
    const companion = await CompanionProcess.prepare(options);
    try {
      await companion.start();
    } catch (error) {
      await companion[Symbol.asyncDispose]();
      throw error;
    }
    return companion;
  }

  /** Creates the folders without starting a process, for tests that must put files there first. */
  static async prepare(options: CompanionOptions): Promise<CompanionProcess> {
    const home = await mkdtemp(join(tmpdir(), "berth-home-"));
    const runtime = join(home, "runtime");
    await mkdir(runtime, { mode: 0o700 });
    await mkdir(join(home, ".local/share/assistant/manifests"), { recursive: true });
    await mkdir(join(home, ".config/berth"), { recursive: true });
    const companion = new CompanionProcess(home, options.flags ?? ["--engine", "stub"], {
      PATH: process.env["PATH"] ?? "",
      NO_COLOR: "1",
      ...options.bus.environment,
      HOME: home,
      XDG_RUNTIME_DIR: runtime,
      ...options.environment,
    });
    if (TestRunner.getCurrentTest() !== undefined)
      onTestFailed(() => void process.stderr.write(`${companion.log}\n`));
    return companion;
  }

  private constructor(
    home: string,
    flags: readonly string[],
    environment: Readonly<Record<string, string>>,
  ) {
    this.home = home;
    this.#flags = flags;
    this.environment = environment;
  }

  get ready(): CompanionReady {
    if (!this.#ready) throw new Error("the companion has not been started");
    return this.#ready;
  }

  get manifestsDir(): string {
    return join(this.home, ".local/share/assistant/manifests");
  }

  get settingsFile(): string {
    return join(this.home, ".config/berth/companion.yaml");
  }

  /** All lines of both output streams, over all starts. */
  get lines(): readonly string[] {
    return this.#log;
  }

  /** The last lines of both output streams. */
  get log(): string {
    return this.#log.slice(-LOG_LINES_SHOWN).join("\n");
  }

  async start(): Promise<void> {
    const child = spawn(
      process.execPath,
      [program, "assistant", "--user", "--port", "0", "--log-format", "json", ...this.#flags],
      { stdio: ["ignore", "pipe", "pipe"], env: this.environment, cwd: this.home },
    );
    this.#child = child;
    this.#ready = await untilReady<CompanionReady>(child, this.#log);
  }

  /** Sends `signal` to the companion, and resolves to its exit code. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    const child = this.#child;
    if (!child) return null;
    this.#child = undefined;
    return endedBy(child, signal);
  }

  /** Runs `bin/berth` with the environment and the home folder of the companion's user. */
  async berth(
    args: readonly string[],
    input = "",
  ): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
    const child = spawn(process.execPath, [program, ...args], {
      env: this.environment,
      cwd: this.home,
      stdio: ["pipe", "pipe", "pipe"],
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdin.on("error", () => {}).end(input); // The process may exit without reading its input.
    const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
    return { code, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
    await rm(this.home, { recursive: true, force: true });
  }
}
