import { isObject } from "../../../base/json.ts";
import { type JsonObject, unknownOutcomeCodes } from "../port.ts";
import { type LateAnswer, ToolAppError, type ToolResult } from "../tool-apps.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

/** The outcome of a tool call: its result, or the reason why there is none. */
export type CallOutcome =
  | {
      readonly status: "executed";
      readonly structured: JsonObject | undefined;
      readonly content: readonly unknown[];
      /** The content and the structured result as one JSON text, for the ledger. */
      readonly text: string;
    }
  | CallRefusal;

/**
 * Results nested deeper than this are rejected: no frontend shows them, and serialising them could overflow the
 * stack.
 */
const DEPTH_MAX = 128;
const TEXT_CHARS_MAX = 500;

export function toOutcome(result: ToolResult): CallOutcome {
  const { structured, content, isError } = result;
  if (structured !== undefined && !isObject(structured))
    return failedRefusal("bad_result", "the app's structured result is not a JSON object");
  if (!Array.isArray(content))
    return failedRefusal("bad_result", "the app's result has no content list");
  if (isDeeperThan(DEPTH_MAX, [structured, content]))
    return failedRefusal(
      "bad_result",
      `the app's result is nested deeper than ${DEPTH_MAX} levels`,
    );
  if (isError)
    return failedRefusal(
      "tool_error",
      toSingleLine(getContentText(content)) || "the tool failed without giving a reason",
    );
  const text = JSON.stringify(structured === undefined ? { content } : { content, structured });
  return { status: "executed", structured, content, text };
}

export function toFailedOutcome(error: ToolAppError): CallRefusal {
  return failedRefusal(error.code, toSingleLine(error.message) || "the app failed");
}

/**
 * Returns the outcome of a call that was sent to the app. If it is unknown whether the call has taken effect, the
 * outcome says so, because a person or a model that reads of a plain failure would call the tool again.
 */
export function toSentOutcome(outcome: CallOutcome): CallOutcome {
  if (outcome.status !== "failed" || !unknownOutcomeCodes.has(outcome.code)) return outcome;
  const message = `${outcome.message}; it is unknown whether the call has taken effect`;
  return { ...outcome, outcome: "unknown", message };
}

/** Returns the outcome that a late answer gives a call; undefined if its outcome stays unknown. */
export function toLateOutcome(answer: LateAnswer | undefined): CallOutcome | undefined {
  if (answer === undefined) return undefined;
  const outcome = toSentOutcome(
    answer instanceof ToolAppError ? toFailedOutcome(answer) : toOutcome(answer),
  );
  return outcome.status !== "executed" && outcome.outcome === "unknown" ? undefined : outcome;
}

/** Joins the text blocks of a result. */
function getContentText(content: readonly unknown[]): string {
  return content
    .map((block) => (isObject(block) && block["type"] === "text" ? block["text"] : undefined))
    .filter((text) => typeof text === "string")
    .join(" ");
}

/** Turns a text from an app into one short line for logs, terminals and dialogs. */
export function toSingleLine(text: string): string {
  // The text is first cut by code units, so that the regular expression does not scan megabytes, and later by code
  // points.
  const line = text
    .slice(0, 4 * TEXT_CHARS_MAX)
    .replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  const characters = Array.from(line);
  const short =
    characters.length <= TEXT_CHARS_MAX
      ? line
      : `${characters.slice(0, TEXT_CHARS_MAX - 1).join("")}…`;
  // A lone surrogate is replaced, because D-Bus strings are UTF-8, which cannot encode it.
  return Buffer.from(short).toString();
}

function isDeeperThan(limit: number, root: unknown): boolean {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    level = level.flatMap((value) =>
      typeof value === "object" && value !== null ? Object.values(value) : [],
    );
  }
  return false;
}
