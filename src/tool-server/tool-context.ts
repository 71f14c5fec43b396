import type { Client } from "../client/rest/client.ts";
import type { UndoRecords } from "./undo-records.ts";

export interface ToolContext {
  /** The client of the REST API, which authenticates with the assistant's own token. */
  readonly client: Client;
  readonly records: UndoRecords;
  /** Returns how long the call may still wait for an app, in milliseconds; 0 if no time is left. */
  remainingMs(): number;
  /** Aborts when the caller stops waiting. */
  readonly signal: AbortSignal;
}

/**
 * The result of a tool. If an app fails after a write, that is a result and not an error, so that the write can be
 * undone.
 */
export interface ToolOutput {
  /** The result for clients that read only text. */
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
}

/** Arguments that the tool's schema has accepted. */
export type ToolArguments = Readonly<Record<string, unknown>>;
