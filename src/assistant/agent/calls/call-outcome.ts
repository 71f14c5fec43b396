import type { JsonObject } from "../port.ts";
import { type ToolAppError, type ToolResult } from "../tool-apps.ts";
import { isJsonObject } from "./parse-arguments.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

/** What became of a tool that was called: what it gave, or why it gave nothing. */
export type CallOutcome =
  | {
      readonly status: "executed";
      readonly structured: JsonObject | undefined;
      readonly content: readonly unknown[];
      /** Both as JSON, for the ledger. */
      readonly text: string;
    }
  | CallRefusal;

/** Deeper than this nobody shows it, and writing it as text could take more stack than there is. */
const DEPTH_MAX = 128;
const TEXT_CHARS_MAX = 500;

export function toOutcome(result: ToolResult): CallOutcome {
  const { structured, content, isError } = result;
  if (structured !== undefined && !isJsonObject(structured))
    return failedRefusal("bad_result", "the app's structured result is no JSON object");
  if (!Array.isArray(content))
    return failedRefusal("bad_result", "the app's result has no list of content");
  if (isDeeperThan(DEPTH_MAX, [structured, content]))
    return failedRefusal(
      "bad_result",
      `the app's result is nested deeper than ${DEPTH_MAX} levels`,
    );
  if (isError)
    return failedRefusal(
      "tool_error",
      toSingleLine(getContentText(content)) || "the tool failed, and did not say why",
    );
  const text = JSON.stringify(structured === undefined ? { content } : { content, structured });
  return { status: "executed", structured, content, text };
}

export function toFailedOutcome(error: ToolAppError): CallRefusal {
  return failedRefusal(error.code, toSingleLine(error.message) || "the app failed");
}

/** Texts of the content, as a person reads them. */
function getContentText(content: readonly unknown[]): string {
  return content
    .map((block) => (isJsonObject(block) && block["type"] === "text" ? block["text"] : undefined))
    .filter((text) => typeof text === "string")
    .join(" ");
}

/** An app's words, so that they can stand in a log, on a terminal and in a dialog. */
export function toSingleLine(text: string): string {
  // First cut, so that megabytes are not searched; then by whole characters.
  const line = text
    .slice(0, 4 * TEXT_CHARS_MAX)
    .replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  const characters = Array.from(line);
  const short =
    characters.length <= TEXT_CHARS_MAX
      ? line
      : `${characters.slice(0, TEXT_CHARS_MAX - 1).join("")}…`;
  // Half a character is none in UTF-8, which is what the bus speaks.
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
