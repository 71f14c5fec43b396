import { type ChildProcess, fork } from "node:child_process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../../../base/clock.ts";
import type { Logger } from "../../../../base/logger.ts";
import type { FromChild, ToChild } from "./ipc.ts";

/**
 * A process that sends no message for this time is killed. Its main thread does not compute, so it can always answer
 * pings.
 */
const SILENCE_MAX_MS = 60_000;
const PING_EVERY_MS = 10_000;
/**
 * The limits for logging the output of the process: characters per line, and lines per minute. Native code can write a
 * lot.
 */
const LINE_LENGTH_MAX = 1_000;
const LINES_A_MINUTE_MAX = 120;

export interface EngineProcessOptions {
  /**
   * The size of libuv's thread pool in the model's process. Each of these threads runs one decode call of llama.cpp at
   * a time.
   */
  readonly workers: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ProcessEnd {
  /** The reason in one line without paths, such as `killed by SIGSEGV`. */
  readonly reason: string;
  readonly signal: NodeJS.Signals | null;
  /** True if the parent killed the process; `reason` is then the parent's reason. */
  readonly isKilledByParent: boolean;
}

const canUseUsing = Number.parseInt(process.versions.node, 10) >= 24;

/** The process of one model: its messages, its end, its output and its watchdog. */
export class EngineProcess implements AsyncDisposable {
  /** Resolves when the process has ended; never rejects. */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  readonly #clock: Clock;
  readonly #closed: Promise<unknown>;
  #hasEnded = false;
  #reason: string | undefined;
  #lastMessageAt: number;
  #stopWatchdog: () => void = () => {};

  constructor(options: EngineProcessOptions) {
    const { clock, logger, workers } = options;
    this.#clock = clock;
    this.#lastMessageAt = clock.now();
    const isSource = import.meta.url.endsWith(".ts");
    const entry = new URL(isSource ? "./child.ts" : "./child.js", import.meta.url);
    this.#child = fork(fileURLToPath(entry), [], {
      // In tests the entry point is TypeScript with `using`. Node.js 22 does not know `using`, so tsx transpiles the
      // file.
      execArgv: isSource && !canUseUsing ? ["--import", import.meta.resolve("tsx")] : [],
      // The process gets none of the daemon's environment, which may contain secrets.
      env: { UV_THREADPOOL_SIZE: String(workers) },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      serialization: "advanced",
    });
    this.#closed = new Promise((resolve) => this.#child.once("close", resolve));
    this.ended = new Promise((resolve) => {
      const onEnd = (reason: string, signal: NodeJS.Signals | null) => {
        this.#hasEnded = true;
        this.#stopWatchdog();
        resolve({
          reason: this.#reason ?? reason,
          signal,
          isKilledByParent: this.#reason !== undefined,
        });
      };
      this.#child.once("exit", (code, signal) =>
        onEnd(signal === null ? `ended with code ${code}` : `killed by ${signal}`, signal),
      );
      this.#child.once("error", (error) => {
        // The error listener only handles a failed start. After a failed send, the event `exit` follows.
        if (this.#child.pid !== undefined) return;
        logger.error({ err: error }, "cannot start a process for a model");
        onEnd("it could not be started", null);
      });
    });
    const lines = new LineRateLimit(clock);
    logOutput(this.#child.stdout, lines, logger);
    logOutput(this.#child.stderr, lines, logger);
    this.#startWatchdog();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  onMessage(listener: (message: FromChild) => void): void {
    this.#child.on("message", (message: FromChild) => {
      this.#lastMessageAt = this.#clock.now();
      listener(message);
    });
  }

  /**
   * Sends a message; does nothing once the process has ended. Callers that wait for an answer are informed by `ended`.
   */
  send(message: ToChild): void {
    if (this.#hasEnded || !this.#child.connected) return;
    this.#child.send(message, undefined, undefined, () => {});
  }

  /** Kills the process; `ended` resolves with `reason`, or with the reason of an earlier call. */
  kill(reason: string): void {
    this.#reason ??= reason;
    this.#child.kill("SIGKILL");
  }

  /** Kills the process; resolves when it has ended and its pipes are closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.kill("it was unloaded");
    await this.ended;
    if (this.#child.pid !== undefined) await this.#closed;
  }

  /** Pings the process and kills it after a long silence, unless this process itself was suspended. */
  #startWatchdog(): void {
    let pingedAt = this.#clock.now();
    const checkLiveness = () => {
      const now = this.#clock.now();
      // A late ping means that this process was suspended, so the child had no chance to answer.
      if (now - pingedAt > 2 * PING_EVERY_MS) this.#lastMessageAt = now;
      pingedAt = now;
      if (now - this.#lastMessageAt > SILENCE_MAX_MS) {
        this.kill(`no answer for ${SILENCE_MAX_MS / 1000} s`);
        return;
      }
      this.send({ type: "ping" });
      this.#stopWatchdog = this.#clock.setTimer(PING_EVERY_MS, checkLiveness);
    };
    this.#stopWatchdog = this.#clock.setTimer(PING_EVERY_MS, checkLiveness);
  }
}

/**
 * Logs the output of a model's process line by line. Long lines are shortened, and lines above the rate limit are
 * dropped.
 */
function logOutput(stream: Readable | null, limit: LineRateLimit, logger: Logger): void {
  let rest = "";
  stream?.setEncoding("utf8").on("data", (text: string) => {
    const lines = `${rest}${text}`.split("\n");
    // The beginning of an unfinished line is kept, up to the length that is logged.
    rest = (lines.pop() ?? "").slice(0, LINE_LENGTH_MAX);
    for (const line of lines) {
      const allowed = limit.take();
      if (allowed === "no") continue;
      const shown = { line: line.slice(0, LINE_LENGTH_MAX) };
      if (line.startsWith("warn: ")) logger.warn(shown, "output of a model's process");
      else logger.debug(shown, "output of a model's process");
      if (allowed === "last")
        logger.warn(
          {},
          "a model's process writes too much output; the rest of this minute is not logged",
        );
    }
  });
}

class LineRateLimit {
  readonly #clock: Clock;
  #since = 0;
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(): "yes" | "last" | "no" {
    const now = this.#clock.now();
    if (now - this.#since > 60_000) {
      this.#since = now;
      this.#count = 0;
    }
    this.#count++;
    if (this.#count > LINES_A_MINUTE_MAX) return "no";
    return this.#count === LINES_A_MINUTE_MAX ? "last" : "yes";
  }
}
