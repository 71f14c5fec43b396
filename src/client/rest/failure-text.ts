import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { ApiError } from "./api-error.ts";

/** Returns an error's message, and the next command to try if there is one. */
export function describeFailure(error: unknown): { message: string; hint: string | undefined } {
  return { message: getMessage(error), hint: getHint(error) };
}

/** Patterns for routes and parameters in the API's hints, each with the command that replaces its matches. */
const commandLineWording: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/send \?force=true/g, "use --force"],
  [/ Get one with POST \/api\/auth\/login.*$/s, ""],
  [/See GET \/api\/apps\/([^/\s.]+)\/revisions/g, "See `berth describe $1`"],
  [/See GET \/api\/apps\/([^/\s.]+) and its logs/g, "See `berth describe $1` and `berth logs $1`"],
  [/See GET \/api\/llm\/models\/([^/\s.]+)/g, "See `berth models show $1`"],
  [/See GET \/api\/(apps|secrets|templates|models)(?=[.\s]|$)/g, "See `berth get $1`"],
];

function getMessage(error: unknown): string {
  if (!(error instanceof ApiError)) return getErrorMessage(error);
  let text = error.message;
  for (const [pattern, words] of commandLineWording) text = text.replace(pattern, words);
  return text;
}

function getHint(error: unknown): string | undefined {
  if (!(error instanceof BerthError)) return undefined;
  if (error.hint !== undefined) return error.hint;
  if (!(error instanceof ApiError)) return undefined;
  switch (error.code) {
    case "not_found":
      // A message that already lists existing names needs no hint about `berth get`.
      return /did you mean|`berth |The newest is/i.test(getMessage(error))
        ? undefined
        : "`berth get KIND` lists the existing names; kinds: apps, models, templates, secrets, stacks";
    case "unauthorized":
      return "`berth login URL`, or set BERTH_TOKEN";
    case "forbidden":
      return "use a token with a wider scope: `berth token create NAME --scope write`";
    case "too_many_requests":
      return error.retryAfterSeconds === undefined
        ? undefined
        : `try again in ${error.retryAfterSeconds} s`;
    case "engine_unreachable":
      return "`berth doctor` shows the problem of the container engine";
    case "assistant_unreachable":
      return "`berth status` and `berth doctor` show the state of the assistant";
    case "internal":
      return "see `berth doctor` and the server's log";
    default:
      return undefined;
  }
}
