import { PassThrough } from "node:stream";
import type { Environment } from "../../src/base/process-environment.ts";
import type { CliIo } from "../../src/cli/io.ts";
import { runCli } from "../../src/cli/main.ts";

export interface CliResult {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

export interface CliOptions {
  readonly environment?: Environment;
  readonly workingDirectory?: string;
  /** The content of standard input; default: empty. */
  readonly input?: string | Uint8Array;
  /** The width of the terminal; undefined if standard output is a pipe. */
  readonly columns?: number;
  /** True if standard error is a terminal, which shows progress. */
  readonly errorIsTerminal?: boolean;
  readonly nowMs?: number;
  /** Connects to a session bus; by default there is none. */
  readonly openSessionBus?: CliIo["openSessionBus"];
  /** Called with a function that simulates Ctrl-C, as soon as the program listens for it. */
  readonly onInterruptible?: (interrupt: () => void) => void;
  /** Called after each write with the whole output so far. */
  readonly onOutput?: (soFar: string) => void;
  /** Called after each write to standard error with all that was written to it so far. */
  readonly onErrors?: (soFar: string) => void;
}

/** Runs one command line in this process, as bin/berth does, with streams that the test reads. */
export async function runCommandLine(
  commandLine: readonly string[],
  options: CliOptions = {},
): Promise<CliResult> {
  let output = "";
  let errors = "";
  const input = new PassThrough();
  input.end(options.input ?? "");
  const isTerminal = options.columns !== undefined;
  const io: CliIo = {
    environment: { HOME: "/nonexistent", ...options.environment },
    workingDirectory: options.workingDirectory ?? "/",
    input,
    inputIsTerminal: false,
    outputIsTerminal: isTerminal,
    errorIsTerminal: options.errorIsTerminal ?? false,
    columns: options.columns,
    errorColumns: options.columns,
    write: async (text) => {
      output += typeof text === "string" ? text : Buffer.from(text).toString("latin1");
      options.onOutput?.(output);
    },
    writeError: (text) => {
      errors += text;
      options.onErrors?.(errors);
    },
    writeTerminal: (text) => {
      errors += text;
    },
    now: () => options.nowMs ?? Date.now(),
    onInterrupt: (listener) => {
      options.onInterruptible?.(listener);
      return () => {};
    },
    openSessionBus: options.openSessionBus ?? noBus,
  };
  const code = await runCli(commandLine, io);
  return { code, output, errors };
}

export async function noBus(): Promise<never> {
  throw new Error("there is no bus");
}
