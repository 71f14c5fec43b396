import { PassThrough } from "node:stream";
import type { Environment } from "../../src/base/process-environment.ts";
import type { CliIo } from "../../src/cli/io.ts";
import { runCli } from "../../src/cli/main.ts";
import { noBus } from "./run-cli.ts";
import { WAIT_OPTIONS } from "./wait-limits.ts";

export const key = { enter: "\r", interrupt: "\u0003", end: "\u0004", escape: "\u001b" } as const;

/** A simulated terminal that runs one command line in this process. */
export class Terminal implements Disposable {
  /** Resolves with the exit code. */
  readonly ended: Promise<number>;
  readonly #keyboard = new PassThrough();
  readonly #listeners = new Set<() => void>();
  readonly #interrupts = new Set<() => void>();
  #screen = "";
  #seen = 0;

  constructor(
    commandLine: readonly string[],
    options: {
      environment?: Environment;
      columns?: number;
      openSessionBus?: CliIo["openSessionBus"];
      nowMs?: number;
    } = {},
  ) {
    const show = (text: string | Uint8Array) => {
      this.#screen += typeof text === "string" ? text : Buffer.from(text).toString();
      for (const listener of this.#listeners) listener();
    };
    const io: CliIo = {
      environment: { HOME: "/nonexistent", NO_COLOR: "1", ...options.environment },
      workingDirectory: "/",
      input: this.#keyboard,
      inputIsTerminal: true,
      outputIsTerminal: true,
      errorIsTerminal: true,
      columns: options.columns ?? 100,
      errorColumns: options.columns ?? 100,
      write: async (text) => show(text),
      writeError: show,
      writeTerminal: show,
      now: () => options.nowMs ?? Date.now(),
      onInterrupt: (listener) => {
        this.#interrupts.add(listener);
        return () => this.#interrupts.delete(listener);
      },
      openSessionBus: options.openSessionBus ?? noBus,
    };
    this.ended = runCli(commandLine, io);
  }

  /** The whole output so far, including control sequences. */
  get screen(): string {
    return this.#screen;
  }

  type(text: string): void {
    this.#keyboard.write(text);
  }

  /** Calls the command's listeners for interrupts, as Ctrl+C would in a terminal that is not in raw mode. */
  interrupt(): void {
    for (const listener of this.#interrupts) listener();
  }

  /** Resolves when a text or a match of a pattern appears after the last match. Control sequences are ignored. */
  async waitForText(wanted: string | RegExp): Promise<void> {
    const deadline = AbortSignal.timeout(WAIT_OPTIONS.timeout);
    for (;;) {
      const rest = stripControlSequences(this.#screen).slice(this.#seen);
      const match = typeof wanted === "string" ? rest.indexOf(wanted) : rest.search(wanted);
      if (match >= 0) {
        const length =
          typeof wanted === "string" ? wanted.length : (wanted.exec(rest)?.[0].length ?? 0);
        this.#seen += match + length;
        return;
      }
      if (deadline.aborted)
        throw new Error(`${String(wanted)} did not come after ${JSON.stringify(rest)}`);
      await this.#change(deadline);
    }
  }

  [Symbol.dispose](): void {
    this.#keyboard.end();
  }

  async #change(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#listeners.delete(done);
        resolve();
      };
      this.#listeners.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }
}

function stripControlSequences(screen: string): string {
  // oxlint-disable-next-line no-control-regex -- the pattern matches control sequences
  return screen.replace(/\u001b\[[0-9;?]*[A-Za-z]|\r/g, "");
}
