import { CommanderError } from "commander";
import { BerthError, InvalidSpecError, isAbortError } from "../base/errors.ts";
import { stripControlCharacters } from "../base/strip-control-characters.ts";
import { ApiError } from "../client/rest/api-error.ts";
import { describeFailure } from "../client/rest/failure-text.ts";
import { ConfigError } from "../config/config-error.ts";
import type { Colors } from "./colours.ts";

/** Exit codes of all verbs except `diff`, which follows diff(1): 1 is a difference, 2 a failure. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 3,
  /** The code that shells report for a program that Ctrl-C has ended: 128 plus the number of SIGINT. */
  interrupted: 130,
} as const;

/** The command line itself is wrong; `hint` shows the correct form. */
export class UsageError extends BerthError {
  constructor(message: string, hint?: string) {
    super("invalid_request", message, { hint });
  }
}

/** The error for a user who answered no, or pressed Ctrl-C, at a prompt. */
export function declinedError(message: string): BerthError {
  return new BerthError("invalid_request", message);
}

export function timeoutError(message: string, hint: string): BerthError {
  return new BerthError("timeout", message, { hint });
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError)
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  if (error instanceof UsageError || error instanceof ConfigError) return exitCodes.usage;
  if (error instanceof BerthError && error.code === "timeout") return exitCodes.timedOut;
  if (isAbortError(error)) return exitCodes.timedOut;
  return exitCodes.failed;
}

/** Formats an error as its message, its cause and the command to try next; ends with a line break. */
export function formatError(error: unknown, colors: Colors, verbose: boolean): string {
  const { message, hint } = describeFailure(error);
  const lines = [`${colors.red("error:")} ${stripControlCharacters(message)}`];
  if (error instanceof InvalidSpecError) {
    for (const issue of error.issues) {
      const position = issue.line === undefined ? "" : `${issue.line}:${issue.column ?? 1}: `;
      lines.push(`  ${position}${issue.path ? `${issue.path}: ` : ""}${issue.message}`);
    }
  }
  if (hint !== undefined) lines.push(`${colors.cyan("try:")}   ${hint}`);
  if (error instanceof ApiError && error.requestId !== undefined && error.status >= 500)
    lines.push(colors.dim(`       request ${error.requestId} in the server's log`));
  if (verbose && error instanceof Error && error.stack !== undefined)
    lines.push(colors.dim(error.stack));
  return `${lines.join("\n")}\n`;
}
