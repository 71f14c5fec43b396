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
  /** What stands on standard input; a terminal otherwise has nothing to say. */
  readonly input?: string | Uint8Array;
  /** A terminal of this width; without it, output goes to a pipe. */
  readonly columns?: number;
  /** Whether somebody sees progress. */
  readonly errorIsTerminal?: boolean;
  readonly nowMs?: number;
  /** Without it, nothing answers at any address. */
  readonly openSessionBus?: CliIo["openSessionBus"];
  /** Called with what a Ctrl-C does, where somebody listens to it. */
  readonly onInterruptible?: (interrupt: () => void) => void;
  /** Called after each piece of output, with all of it so far. */
  readonly onOutput?: (soFar: string) => void;
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
  throw new Error("no bus is there");
}
