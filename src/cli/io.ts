import type { Readable } from "node:stream";
import type { Environment } from "../base/process-environment.ts";
import type { SessionBus } from "../dbus/port.ts";

/** The streams, terminal, environment and clock that a verb uses. Tests replace them. */
export interface CliIo {
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly input: Readable;
  readonly inputIsTerminal: boolean;
  readonly outputIsTerminal: boolean;
  readonly errorIsTerminal: boolean;
  /** Width of the terminal in columns; undefined if standard output is not a terminal. */
  readonly columns: number | undefined;
  /** The width of the terminal of standard error, to which remarks and questions are written. */
  readonly errorColumns: number | undefined;
  /**
   * Writes to standard output. Resolves once the stream has accepted the text, so that nothing is lost when the process
   * ends.
   */
  write(text: string | Uint8Array): Promise<void>;
  writeError(text: string): void;
  /** Writes the output of a line editor, including its control sequences, to standard error. */
  writeTerminal(text: string): void;
  /** The current time in milliseconds since the epoch, from which ages are computed. */
  readonly now: () => number;
  /** Calls `listener` at the first Ctrl-C, which then does not end the process. Returns a function that removes it. */
  onInterrupt(listener: () => void): () => void;
  /**
   * Connects to the session bus. Rejects if no bus answers at the address. The caller closes the bus. With
   * `canPassFds`, file descriptors can be sent over it, which needs the package koffi.
   */
  openSessionBus(address: string, signal: AbortSignal, canPassFds?: boolean): Promise<SessionBus>;
}

/** The assumed width of a terminal that does not report its own. */
export const COLUMNS_STANDARD = 80;

export function processIo(environment: Environment): CliIo {
  return {
    environment,
    workingDirectory: process.cwd(),
    input: process.stdin,
    inputIsTerminal: process.stdin.isTTY,
    outputIsTerminal: process.stdout.isTTY,
    errorIsTerminal: process.stderr.isTTY,
    // The widths are read at each use, because the user may resize the terminal at any time.
    get columns() {
      return columnsOf(process.stdout);
    },
    get errorColumns() {
      return columnsOf(process.stderr);
    },
    write: (text) =>
      new Promise((resolve, reject) => {
        process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
      }),
    writeError: (text) => {
      process.stderr.write(text);
    },
    writeTerminal: (text) => {
      process.stderr.write(text);
    },
    now: () => Date.now(),
    onInterrupt: (listener) => {
      process.once("SIGINT", listener);
      return () => process.off("SIGINT", listener);
    },
    openSessionBus: async (address, signal, canPassFds) => {
      const { connectSessionBus } = await import("../dbus/connect-session-bus.ts");
      return connectSessionBus({ address, signal, negotiateFds: canPassFds === true });
    },
  };
}

/**
 * Returns the width of a terminal; undefined if `stream` is not a terminal. Some terminals, such as one on a serial
 * line, do not know their size and report 0; then the usual 80 columns are assumed.
 */
function columnsOf(stream: NodeJS.WriteStream): number | undefined {
  if (!stream.isTTY) return undefined;
  return stream.columns > 0 ? stream.columns : COLUMNS_STANDARD;
}
