import { type ChildProcess, spawn } from "node:child_process";
import { type Clock, delay } from "../../../../base/clock.ts";
import type { Logger } from "../../../../base/logger.ts";
import { raceWithAbort } from "../../../../base/race-with-abort.ts";
import { ToolAppError } from "../../tool-apps.ts";
import { sanitizeMessage } from "../sanitize-message.ts";
import type { AppStarter } from "./port.ts";

/** The command that starts a built-in app. */
export interface AppCommand {
  /** The program and its arguments. */
  readonly argv: readonly [string, ...string[]];
  /** Environment of the app; if undefined, the app inherits the daemon's environment. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Time between SIGTERM and SIGKILL. */
const TERMINATION_GRACE_MS = 2_000;
/** Only this number of characters at the end of an app's standard error is kept, for the log. */
const STDERR_TAIL_CHARS = 4_000;

/**
 * Starts the apps that ship with Berth as child processes of this daemon, on demand, and ends them when the daemon
 * ends. An app that dies is started again at the next call. The standard input of such an app closes when the daemon
 * ends, even by SIGKILL.
 */
export class CommandStarter implements AppStarter, AsyncDisposable {
  readonly #commands: ReadonlyMap<string, AppCommand>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #running = new Map<string, RunningCommand>();
  #isDisposed = false;

  constructor(options: {
    readonly commands: ReadonlyMap<string, AppCommand>;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#commands = options.commands;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /**
   * Starts the app. The promise stays pending while the app runs, because the process may still end before it listens
   * on its socket.
   */
  async start(appId: string, signal: AbortSignal): Promise<"asked" | "unknown"> {
    const command = this.#commands.get(appId);
    if (!command || this.#isDisposed) return "unknown";
    const running = this.#running.get(appId) ?? this.#spawn(appId, command);
    await raceWithAbort(running.ended, signal);
    const message = `${appId} was started and ended before it listened: see the daemon's log for the reason`;
    throw new ToolAppError("app_unavailable", message);
  }

  async knows(appId: string): Promise<boolean> {
    return this.#commands.has(appId) && !this.#isDisposed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await Promise.all([...this.#running.values()].map((running) => this.#terminate(running)));
  }

  #spawn(appId: string, command: AppCommand): RunningCommand {
    const [program, ...args] = command.argv;
    const child = spawn(program, args, {
      stdio: ["pipe", "ignore", "pipe"],
      ...(command.environment && { env: { ...command.environment } }),
    });
    let stderrTail = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderrTail = (stderrTail + text).slice(-STDERR_TAIL_CHARS);
    });
    child.stdin.on("error", () => {});
    const ended = new Promise<void>((resolve) => {
      child.once("exit", () => resolve());
      child.on("error", (err) => {
        this.#logger.error({ app: appId, err }, "an app that ships with Berth cannot be started");
        resolve();
      });
    });
    const running: RunningCommand = { child, ended };
    this.#running.set(appId, running);
    void ended.then(() => this.#running.delete(appId));
    // The log entry waits for the event `close`, which comes later than `exit` if a child process of the app still
    // holds the app's standard error.
    child.once("close", (code, signal) => {
      const fields = { app: appId, code, signal, stderr: sanitizeMessage(stderrTail) };
      if (this.#isDisposed || code === 0) this.#logger.info(fields, "app ended");
      else this.#logger.warn(fields, "app ended; the next call starts it again");
    });
    this.#logger.info({ app: appId, pid: child.pid }, "app started");
    return running;
  }

  async #terminate({ child, ended }: RunningCommand): Promise<void> {
    child.stdin?.end();
    child.kill("SIGTERM");
    const stop = new AbortController();
    const late = delay(this.#clock, TERMINATION_GRACE_MS, stop.signal).then(
      () => child.kill("SIGKILL"),
      () => false,
    );
    await ended;
    stop.abort();
    await late;
    child.stderr?.destroy();
  }
}

interface RunningCommand {
  readonly child: ChildProcess;
  /** Resolves when the process has ended. Never rejects. */
  readonly ended: Promise<void>;
}
