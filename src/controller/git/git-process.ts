import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { getErrorCode } from "../../base/errors.ts";
import { type IdleTimeout, IdleTimer } from "./idle-timer.ts";

export interface GitProcessOptions {
  /** The arguments of git after `SETTINGS`. Values from outside are after `--`, or are known not to be options. */
  readonly args: readonly string[];
  /** The folder for everything that the process writes, and its HOME. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** The folders in which programs are looked up, in the format of PATH. */
  readonly searchPath: string;
  /** The limit for the time without data, for a command that talks to a server; absent for local commands. */
  readonly idleTimeout?: IdleTimeout;
  /**
   * Called at intervals while the process runs; an error that it throws ends the process and is thrown to the caller.
   */
  readonly watch?: () => Promise<void>;
}

/**
 * Thrown if git failed. `stderr` is the end of git's English output. It may contain paths, so it is only used to
 * classify the error.
 */
export class GitExitError extends Error {
  readonly stderr: string;
  constructor(stderr: string) {
    super("git ended with an error");
    this.stderr = stderr;
  }
}

/** Thrown if git is not installed. */
export class GitNotInstalledError extends Error {}

const STDERR_KEPT = 16_384;
const WATCH_MS = 250;

/**
 * Settings of every call, which override those of the repository, of the machine and of the user: no hooks, no helpers,
 * no prompts, and only the chosen transports.
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
  // git itself must not follow redirects, because it would send the token to the other server. Berth follows redirects
  // before it calls git.
  ["http.followRedirects", "false"],
  // Makes git keep received packs as packs, and large files out of memory.
  ["fetch.unpackLimit", "1"],
  ["core.bigFileThreshold", "8m"],
  ["pack.threads", "1"],
].flatMap(([key, value]) => ["-c", `${key}=${value}`]);

/**
 * The machine's git as a child process. The whole process group, including ssh and index-pack, is killed when the
 * signal aborts, when no data arrives for the idle time, or when the caller disposes of it.
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
        // A delta in a pack can request any amount of memory, so each allocation of git is limited. The limit is larger
        // than any usual source file.
        GIT_ALLOC_LIMIT: "1g",
      },
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    // A write fails if git has already ended; its exit then reports the reason.
    this.#child.stdin?.on("error", () => {});
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

  /**
   * Yields the output of the process. Ends when the process has succeeded; throws an error if the process has failed.
   */
  async *output(): AsyncGenerator<Buffer, void> {
    const { stdout } = this.#child;
    if (stdout) {
      try {
        for await (const chunk of stdout) {
          this.#idle?.touch();
          if (Buffer.isBuffer(chunk)) yield chunk;
        }
      } catch {
        // The pipe was closed because the process ended. The error of the process is thrown below.
      }
    }
    await this.#closed;
  }

  /** Returns the whole output as text. Throws if it is longer than `charsMax`. */
  async readText(charsMax: number): Promise<string> {
    let text = "";
    for await (const chunk of this.output()) {
      text += chunk.toString("utf8");
      if (text.length > charsMax) throw new Error("the output of git is longer than its limit");
    }
    return text;
  }

  /** Kills the process if it still runs, and resolves when it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill();
    // Unread output is discarded, because it would delay the `close` event of the process.
    this.#child.stdout?.destroy();
    await this.#closed.catch(() => {});
  }

  async #awaitEnd(): Promise<void> {
    try {
      const [code] = await once(this.#child, "close");
      this.#signal.throwIfAborted();
      if (code !== 0) throw new GitExitError(this.#stderr);
    } catch (error) {
      if (getErrorCode(error) === "ENOENT")
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
      // The process group has already ended, so there is nothing to kill.
    }
  };
}
