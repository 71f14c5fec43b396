import type { Readable } from "node:stream";
import type { Environment } from "../base/process-environment.ts";
import type { SessionBus } from "../dbus/port.ts";

/** What a verb sees of the world around it: streams, terminal, environment. Tests make their own. */
export interface CliIo {
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly input: Readable;
  readonly inputIsTerminal: boolean;
  readonly outputIsTerminal: boolean;
  readonly errorIsTerminal: boolean;
  /** Width of the terminal in columns; undefined where output goes elsewhere. */
  readonly columns: number | undefined;
  /** The same of where remarks and questions go. */
  readonly errorColumns: number | undefined;
  /** Resolves once the text is on its way, so that nothing is lost when the process ends. */
  write(text: string | Uint8Array): Promise<void>;
  writeError(text: string): void;
  /** Milliseconds since the epoch: ages are counted from it. */
  readonly now: () => number;
  /** Calls back at the first Ctrl-C, which then does not end the process. Returns what takes that back. */
  onInterrupt(listener: () => void): () => void;
  /**
   * Rejects where none answers at the address. Whoever gets it closes it. `canPassFds`: file descriptors can be
   * sent over it, which needs the package koffi.
   */
  openSessionBus(address: string, signal: AbortSignal, canPassFds?: boolean): Promise<SessionBus>;
}

const COLUMNS_STANDARD = 80;

export function processIo(environment: Environment): CliIo {
  return {
    environment,
    workingDirectory: process.cwd(),
    input: process.stdin,
    inputIsTerminal: process.stdin.isTTY,
    outputIsTerminal: process.stdout.isTTY,
    errorIsTerminal: process.stderr.isTTY,
    columns: columnsOf(process.stdout),
    errorColumns: columnsOf(process.stderr),
    write: (text) =>
      new Promise((resolve, reject) => {
        process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
      }),
    writeError: (text) => {
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

/** Terminals that do not know their size say 0, as over a serial line: 80, as they always had. */
function columnsOf(stream: NodeJS.WriteStream): number | undefined {
  if (!stream.isTTY) return undefined;
  return stream.columns > 0 ? stream.columns : COLUMNS_STANDARD;
}
