import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type IdleTimeout, IdleTimer } from "./idle-timer.ts";

export interface GitProcessOptions {
  /** Arguments after the settings; what comes from outside stands after `--`, or is known to be no option. */
  readonly args: readonly string[];
  /** A folder that holds everything that the process may write, and its HOME. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folders in which programs are looked for. */
  readonly searchPath: string;
  /** For what talks to a server; without them it may take its time. */
  readonly idleTimeout?: IdleTimeout;
  /** Called now and then while it runs; what it throws ends the process and is thrown to the caller. */
  readonly watch?: () => Promise<void>;
}

/** git ended with an error. `stderr` is its last part, in English, and may name paths: it is for classifying. */
export class GitExitError extends Error {
  readonly stderr: string;
  constructor(stderr: string) {
    super("git ended with an error");
    this.stderr = stderr;
  }
}

/** There is no such program here. */
export class GitNotInstalledError extends Error {}

const STDERR_KEPT = 16_384;
const WATCH_MS = 250;

/**
 * Settings of every call, before anything that a repository, a file of this machine or a user's own
 * configuration could say: no hooks, no helpers, no prompts, no transport but those that were chosen.
 */
const SETTINGS = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.askPass", ""],
  ["credential.helper", ""],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["fetch.recurseSubmodules", "false"],
  ["submodule.recurse", "false"],
  ["protocol.allow", "never"],
  ["protocol.ssh.allow", "always"],
  ["protocol.http.allow", "always"],
  ["protocol.https.allow", "always"],
  // The token would go along; redirects have been followed before git is asked.
  ["http.followRedirects", "false"],
  // Packs stay packs, and large files are never held in memory.
  ["fetch.unpackLimit", "1"],
  ["core.bigFileThreshold", "8m"],
  ["pack.threads", "1"],
].flatMap(([key, value]) => ["-c", `${key}=${value}`]);

/**
 * The machine's git as a child process. Its whole process group (ssh, index-pack) is killed when the
 * signal aborts, when nothing is heard for the idle time, or when the caller disposes of it.
 */
export class GitProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  readonly #idle: IdleTimer | undefined;
  #hasEnded = false;
  readonly #signal: AbortSignal;
  readonly #failed = new AbortController();
  readonly #watch: (() => Promise<void>) | undefined;
  #stderr = "";
  #watchTimer: NodeJS.Timeout | undefined;

  constructor(options: GitProcessOptions, signal: AbortSignal) {
    signal.throwIfAborted();
    this.#idle = options.idleTimeout && new IdleTimer(options.idleTimeout);
    const ends = [signal, this.#failed.signal, ...(this.#idle ? [this.#idle.signal] : [])];
    this.#signal = AbortSignal.any(ends);
    this.#watch = options.watch;
    this.#child = spawn("git", [...SETTINGS, ...options.args], {
      cwd: options.cwd,
      env: {
        ...options.env,
        PATH: options.searchPath,
        HOME: options.cwd,
        LC_ALL: "C",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_TERMINAL_PROMPT: "0",
        GIT_OPTIONAL_LOCKS: "0",
        // A delta can ask for any size; one file larger than this is not for an image.
        GIT_ALLOC_LIMIT: "1g",
      },
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    this.#child.stdin?.on("error", () => {}); // it ended first: its exit says why
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#idle?.touch();
      this.#stderr = (this.#stderr + text).slice(-STDERR_KEPT);
    });
    this.#closed = this.#awaitEnd();
    this.#closed.catch(() => {});
    this.#signal.addEventListener("abort", this.#kill, { once: true });
    if (this.#watch) this.#watchTimer = setInterval(() => void this.#runWatch(), WATCH_MS);
  }

  write(text: string): void {
    this.#child.stdin?.write(text);
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  /** What it prints. Ends when the process has ended well; throws as `ended` does. */
  async *output(): AsyncGenerator<Buffer, void> {
    const { stdout } = this.#child;
    if (stdout) {
      try {
        for await (const chunk of stdout) {
          this.#idle?.touch();
          if (Buffer.isBuffer(chunk)) yield chunk;
        }
      } catch {
        // The pipe broke because the process did: that is thrown below.
      }
    }
    await this.#closed;
  }

  /** Everything that it prints, as text, which stays below `charsMax`. */
  async readText(charsMax: number): Promise<string> {
    let text = "";
    for await (const chunk of this.output()) {
      text += chunk.toString("utf8");
      if (text.length > charsMax) throw new Error("git printed more than can be meant");
    }
    return text;
  }

  /** Kills what still runs, and returns when it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill();
    // What nobody reads any more would keep the process from counting as closed.
    this.#child.stdout?.destroy();
    await this.#closed.catch(() => {});
  }

  async #awaitEnd(): Promise<void> {
    try {
      const [code] = await once(this.#child, "close");
      this.#signal.throwIfAborted();
      if (code !== 0) throw new GitExitError(this.#stderr);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT")
        throw new GitNotInstalledError("git is not installed", { cause: error });
      throw error;
    } finally {
      this.#hasEnded = true;
      this.#idle?.stop();
      clearInterval(this.#watchTimer);
      this.#signal.removeEventListener("abort", this.#kill);
    }
  }

  async #runWatch(): Promise<void> {
    try {
      await this.#watch?.();
    } catch (error) {
      this.#failed.abort(error);
    }
  }

  readonly #kill = () => {
    const { pid } = this.#child;
    if (pid === undefined || this.#hasEnded) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It ended in this moment, and all that it started.
    }
  };
}
