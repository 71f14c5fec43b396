import { type ChildProcess, spawn } from "node:child_process";
import { type Clock, delay } from "../../base/clock.ts";
import { getErrorCode, getErrorMessage } from "../../base/errors.ts";
import { parentMessageValidator } from "../../base/parent-message.ts";
import type { Environment } from "../../base/process-environment.ts";

/**
 * A daemon of Berth as a child process. It has its own process group, so that a Ctrl-C does not reach it directly.
 * Its log goes to the stderr of this process. If this process is killed, the daemon notices that its IPC channel is
 * closed.
 */
export class DaemonChild {
  /**
   * Resolves when the daemon has ended, with the reason: a sentence for the user, without its full stop. Never rejects.
   */
  readonly ended: Promise<string>;
  /** The process; undefined if the system could not start it. */
  readonly #child: ChildProcess | undefined;
  readonly #clock: Clock;

  constructor(options: {
    /** The program and its arguments. */
    readonly command: readonly string[];
    readonly environment: Environment;
    readonly clock: Clock;
    /**
     * Maps the daemon's flags to those of `berth up`, such as `--port` to `--assistant-port`, for hints that the daemon
     * prints.
     */
    readonly flags: Readonly<Record<string, string>>;
    /** Called with the URL at which the daemon answers. */
    readonly onReady: (url: string) => void;
  }) {
    const [program = "", ...args] = options.command;
    this.#clock = options.clock;
    let child: ChildProcess;
    try {
      child = spawn(program, args, {
        env: { ...options.environment },
        stdio: ["ignore", "ignore", "inherit", "ipc"],
        detached: true,
      });
    } catch (error) {
      // Some failures of a start, such as a lack of memory, are thrown instead of emitted, so they are handled here.
      this.ended = Promise.resolve(describeSpawnError(error));
      return;
    }
    this.#child = child;
    let failure: string | undefined;
    child.on("message", (message) => {
      if (!parentMessageValidator.isValid(message)) return;
      if (message.type === "ready") {
        options.onReady(message.url);
        return;
      }
      const hint = message.hint === null ? "" : `; ${message.hint}`;
      failure = `${message.message}${hint.replaceAll(/--[a-z][a-z-]*/g, (flag) => options.flags[flag] ?? flag)}`;
    });
    this.ended = new Promise((resolve) => {
      // The event "close" is used, because it comes after the last message, whereas a message may still arrive after
      // "exit".
      child.once("close", (code, signal) => resolve(failure ?? describeExit(code, signal)));
      child.once("error", (error) => {
        if (child.pid === undefined) resolve(describeSpawnError(error));
      });
    });
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the daemon has ended. */
  async end(graceMs: number): Promise<void> {
    const over = new AbortController();
    const late = delay(this.#clock, graceMs, over.signal).then(
      () => void this.#child?.kill("SIGKILL"),
      () => {},
    );
    this.#child?.kill("SIGTERM");
    await this.ended;
    over.abort();
    await late;
  }
}

function describeSpawnError(error: unknown): string {
  return `the process could not be started (${getErrorCode(error) ?? getErrorMessage(error)})`;
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal !== null) return `the process was ended by ${signal}`;
  return code === 0
    ? "the process ended by itself"
    : `the process ended with exit code ${code}; its log says why`;
}
