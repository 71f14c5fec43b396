import { CommanderError } from "commander";
import { ConfigError } from "../base/config-error.ts";
import { BerthError, InvalidSpecError, isAbort, messageOf } from "../base/errors.ts";
import { ApiError } from "../client/api-error.ts";
import { safeText } from "./chat/safe-text.ts";
import type { Colors } from "./output/colours.ts";

/** What every verb ends with. `diff` alone differs, as diff(1) does: 1 is a difference, 2 a failure. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 3,
  /** What shells say of a program that Ctrl-C has ended: 128 and the number of SIGINT. */
  interrupted: 130,
} as const;

/** The command line itself is wrong; `hint` shows how it is written. */
export class UsageError extends BerthError {
  constructor(message: string, hint?: string) {
    super("invalid_request", message, { hint });
  }
}

/** A person said no, or pressed Ctrl-C, when asked. */
export function declined(message: string): BerthError {
  return new BerthError("invalid_request", message);
}

export function timedOut(message: string, hint: string): BerthError {
  return new BerthError("timeout", message, { hint });
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError)
    return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  if (error instanceof UsageError || error instanceof ConfigError) return exitCodes.usage;
  if (error instanceof BerthError && error.code === "timeout") return exitCodes.timedOut;
  if (isAbort(error)) return exitCodes.timedOut;
  return exitCodes.failed;
}

/** What happened, why, and the command to try next; ends with a line break. */
export function explain(error: unknown, colors: Colors, verbose: boolean): string {
  const lines = [`${colors.red("error:")} ${safeText(messageFor(error))}`];
  if (error instanceof InvalidSpecError) {
    for (const issue of error.issues) {
      const position = issue.line === undefined ? "" : `${issue.line}:${issue.column ?? 1}: `;
      lines.push(`  ${position}${issue.path ? `${issue.path}: ` : ""}${issue.message}`);
    }
  }
  const hint = hintOf(error);
  if (hint !== undefined) lines.push(`${colors.cyan("try:")}   ${hint}`);
  if (error instanceof ApiError && error.requestId !== undefined && error.status >= 500)
    lines.push(colors.dim(`       request ${error.requestId} in the server's log`));
  if (verbose && error instanceof Error && error.stack !== undefined)
    lines.push(colors.dim(error.stack));
  return `${lines.join("\n")}\n`;
}

/** The same without a terminal: what happened, and what to try next. */
export function failureWords(error: unknown): { message: string; hint: string | undefined } {
  return { message: messageFor(error), hint: hintOf(error) };
}

/** The API's hints name its routes and parameters; at a terminal those of the verbs help. */
const spoken: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/send \?force=true/g, "use --force"],
  [/ Get one with POST \/api\/auth\/login.*$/s, ""],
  [/See GET \/api\/apps\/([^/\s.]+)\/revisions/g, "See `berth describe $1`"],
  [/See GET \/api\/apps\/([^/\s.]+) and its logs/g, "See `berth describe $1` and `berth logs $1`"],
  [/See GET \/api\/llm\/models\/([^/\s.]+)/g, "See `berth models show $1`"],
  [/See GET \/api\/(apps|secrets|templates|models)(?=[.\s]|$)/g, "See `berth get $1`"],
];

function messageFor(error: unknown): string {
  if (!(error instanceof ApiError)) return messageOf(error);
  let text = error.message;
  for (const [pattern, words] of spoken) text = text.replace(pattern, words);
  return text;
}

function hintOf(error: unknown): string | undefined {
  if (!(error instanceof BerthError)) return undefined;
  if (error.hint !== undefined) return error.hint;
  if (!(error instanceof ApiError)) return undefined;
  switch (error.code) {
    case "not_found":
      // A message that names what there is needs no list of kinds.
      return /did you mean|`berth |The newest is/i.test(messageFor(error))
        ? undefined
        : "`berth get KIND` lists what there is; kinds: apps, models, templates, secrets";
    case "unauthorized":
      return "`berth login URL`, or set BERTH_TOKEN";
    case "forbidden":
      return "use a token with a wider scope: `berth token create NAME --scope write`";
    case "too_many_requests":
      return error.retryAfterSeconds === undefined
        ? undefined
        : `the same again in ${error.retryAfterSeconds} s`;
    case "engine_unreachable":
      return "`berth doctor` tells what is wrong with the container engine";
    case "assistant_unreachable":
      return "`berth status` and `berth doctor` tell what the assistant does";
    case "internal":
      return "`berth doctor`, and the server's log";
    default:
      return undefined;
  }
}
