import { type Command, CommanderError } from "commander";
import { getErrorCode } from "../base/errors.ts";
import type { Environment } from "../base/process-environment.ts";
import { withCleanOutput } from "./clean-output.ts";
import type { Cli } from "./cli.ts";
import { exitCodeOf, exitCodes, formatError } from "./cli-errors.ts";
import { type CliIo, processIo } from "./io.ts";
import { overview } from "./overview.ts";
import { buildProgram } from "./program.ts";

/** Runs one command line and returns its exit code: 0 done, 1 failed, 2 usage, 3 timed out. */
export async function runCli(commandLine: readonly string[], streams: CliIo): Promise<number> {
  const io = withCleanOutput(streams);
  const { program, cli } = buildProgram(io);
  try {
    await runProgram(commandLine, program, cli);
    await cli.flushWrites();
    return cli.exitCode;
  } catch (error) {
    // A reader that closes its end early, as `| head` does, is not a failure.
    if (isBrokenPipe(error)) return exitCodes.done;
    // Commander has printed its own errors already.
    if (!(error instanceof CommanderError))
      io.writeError(formatError(error, cli.errorColours, cli.globals.verbose === true));
    const code = exitCodeOf(error);
    return commandLine[0] === "diff" && code !== exitCodes.done ? exitCodes.usage : code;
  }
}

async function runProgram(
  commandLine: readonly string[],
  program: Command,
  cli: Cli,
): Promise<void> {
  const { operands, unknown } = program.parseOptions([...commandLine]);
  if (operands.length === 0 && unknown.length === 0)
    return cli.print(overview(program, cli.colours));
  try {
    await program.parseAsync(commandLine, { from: "user" });
  } catch (error) {
    // Commander also throws after it has printed help or the version, which is not a failure.
    if (error instanceof CommanderError && error.exitCode === 0) return;
    throw error;
  }
}

/** The entry point of bin/berth. */
export async function main(environment: Environment): Promise<void> {
  // Without a listener, a closed pipe would end the process with a stack trace.
  process.stdout.on("error", (error) => {
    if (!isBrokenPipe(error)) throw error;
  });
  process.exitCode = await runCli(process.argv.slice(2), processIo(environment));
}

function isBrokenPipe(error: unknown): boolean {
  return getErrorCode(error) === "EPIPE";
}
