import { AssistantError } from "../assistant-error.ts";
import { busErrorTable, FAILED } from "./bus-error-table.ts";
import { BusReplyError } from "./bus-reply-error.ts";

/** Longest text of an error reply: enough for a sentence that callers show to people. */
const TEXT_LENGTH_MAX = 1_000;

export interface ErrorReply {
  readonly busName: string;
  readonly text: string;
  /** True for an unexpected error, which must be logged. */
  readonly isUnexpected: boolean;
}

/** Converts a thrown error into the reply that the caller gets. */
export function toErrorReply(error: unknown): ErrorReply {
  if (error instanceof BusReplyError) {
    return { busName: error.busName, text: toSingleLine(error.message), isUnexpected: false };
  }
  if (error instanceof AssistantError) {
    return {
      busName: busErrorTable[error.code],
      text: error.code === "internal" ? UNEXPECTED : toSingleLine(error.message),
      isUnexpected: error.code === "internal",
    };
  }
  return { busName: FAILED, text: UNEXPECTED, isUnexpected: true };
}

const UNEXPECTED = "an unexpected error occurred; see the companion's log";

function toSingleLine(text: string): string {
  // oxlint-disable-next-line no-control-regex -- the expression removes control characters
  const line = text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\s]+/g, " ").trim();
  return line.length > TEXT_LENGTH_MAX ? `${line.slice(0, TEXT_LENGTH_MAX - 1)}…` : line;
}
