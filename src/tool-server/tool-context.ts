import type { Client } from "../client/rest/client.ts";
import type { UndoRecords } from "./undo-records.ts";

/** What each call of a tool works with. */
export interface ToolContext {
  /** With the assistant's own token. */
  readonly client: Client;
  readonly records: UndoRecords;
  /** How long the call may still wait for an app; 0 when the time is over. */
  remainingMs(): number;
  /** Aborts when the caller does not wait any more. */
  readonly signal: AbortSignal;
}

/** What a tool came to. Whatever happened on the server is no error, or it could not be taken back. */
export interface ToolOutput {
  /** For who reads text only. */
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
}

/** Arguments, after they have been held to the tool's schema. */
export type ToolArguments = Readonly<Record<string, unknown>>;
