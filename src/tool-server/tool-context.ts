import type { Client } from "../client/rest/client.ts";
import type { UndoRecords } from "./undo-records.ts";

/** The context of a tool call. */
export interface ToolContext {
  /** Authenticates with the assistant's own token. */
  readonly client: Client;
  readonly records: UndoRecords;
  /** The time that the call may still wait for an app; 0 if none is left. */
  remainingMs(): number;
  /** Aborts when the caller stops waiting. */
  readonly signal: AbortSignal;
}

/** The result of a tool. A failure of the app after a write is a result, not an error, so that it can be undone. */
export interface ToolOutput {
  /** The result for clients that read only text. */
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
}

/** Arguments that are valid by the tool's schema. */
export type ToolArguments = Readonly<Record<string, unknown>>;
