import { type ChildProcess, fork } from "node:child_process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../../../base/clock.ts";
import type { Logger } from "../../../../base/logger.ts";
import type { FromChild, ToChild } from "./ipc.ts";

/** A main thread that says nothing for so long does nothing else either; computing is not done there. */
const SILENCE_MAX_MS = 60_000;
const PING_EVERY_MS = 10_000;
/** Of what a process writes: native code can be talkative. */
const LINE_LENGTH_MAX = 1_000;
const LINES_A_MINUTE_MAX = 120;

export interface EngineProcessOptions {
  /** Workers of the library in that process: what is decoded side by side. */
  readonly workers: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ProcessEnd {
  /** One line without paths: `killed by SIGSEGV`. */
  readonly reason: string;
  readonly signal: NodeJS.Signals | null;
  /** It was ended from here, for the reason that is given. */
  readonly isKilledByParent: boolean;
}

/** A process with one model in it: its channel, its end, what it writes, and whether it still lives. */
export class EngineProcess implements AsyncDisposable {
  /** Resolves when it is gone; never rejects. */
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
      // Under the tests and tsx it is TypeScript, which a process has to be taught.
      execArgv: isSource ? ["--import", import.meta.resolve("tsx")] : [],
      // Nothing of the daemon's: native code needs no secrets.
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
        // It was never started; a send that fails is followed by `exit`.
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

  /** Does nothing once it is gone; whoever waits for an answer hears of `ended`. */
  send(message: ToChild): void {
    if (this.#hasEnded || !this.#child.connected) return;
    this.#child.send(message, undefined, undefined, () => {});
  }

  /** Ends it now; `ended` tells this reason. */
  kill(reason: string): void {
    this.#reason ??= reason;
    this.#child.kill("SIGKILL");
  }

  /** Resolves when nothing of it is left, its pipes included. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.kill("it was unloaded");
    await this.ended;
    if (this.#child.pid !== undefined) await this.#closed;
  }

  /** It is asked to say something now and then; also a stopped machine gets its time again. */
  #startWatchdog(): void {
    let askedAt = this.#clock.now();
    const checkLiveness = () => {
      const now = this.#clock.now();
      // What was not asked in time could not be answered: this process was the one that stood still.
      if (now - askedAt > 2 * PING_EVERY_MS) this.#lastMessageAt = now;
      askedAt = now;
      if (now - this.#lastMessageAt > SILENCE_MAX_MS) {
        this.kill(`it did not answer for ${SILENCE_MAX_MS / 1000} s`);
        return;
      }
      this.send({ type: "ping" });
      this.#stopWatchdog = this.#clock.setTimer(PING_EVERY_MS, checkLiveness);
    };
    this.#stopWatchdog = this.#clock.setTimer(PING_EVERY_MS, checkLiveness);
  }
}

/** Lines go to the log, shortened, and no more of them than somebody may read. */
function logOutput(stream: Readable | null, limit: LineRateLimit, logger: Logger): void {
  let rest = "";
  stream?.setEncoding("utf8").on("data", (text: string) => {
    const lines = `${rest}${text}`.split("\n");
    // What has no end yet is kept as far as it would be logged.
    rest = (lines.pop() ?? "").slice(0, LINE_LENGTH_MAX);
    for (const line of lines) {
      const allowed = limit.take();
      if (allowed === "no") continue;
      const shown = { line: line.slice(0, LINE_LENGTH_MAX) };
      if (line.startsWith("warn: ")) logger.warn(shown, "the model's process says");
      else logger.debug(shown, "the model's process says");
      if (allowed === "last") logger.warn({}, "the model's process writes too much to be logged");
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
