import type { LedgerReference, UndoReport } from "../port.ts";
import type { UndoableCall } from "./call-journal.ts";

/** The ids of the calls whose undo has not ended, the last executed call first. */
export interface OpenUndos {
  readonly ready: readonly number[];
  readonly unknown: readonly number[];
}

export function buildUndoReport(
  undo: {
    readonly call: UndoableCall;
    readonly status: "undone" | "failed" | "skipped";
    readonly attempts: number;
  },
  open: OpenUndos,
  more: {
    readonly ledger?: LedgerReference | undefined;
    readonly result?: unknown;
    readonly error?: UndoReport["error"];
  },
): UndoReport {
  const { call, status, attempts } = undo;
  return {
    v: 1,
    status,
    call_id: call.call,
    app_id: call.app,
    tool: call.tool,
    compensation: { tool: call.compensation.tool, args: call.compensation.args },
    result: more.result ?? null,
    error: more.error ?? null,
    attempts,
    remaining: open.ready.length,
    unknown: open.unknown,
    ledger: more.ledger ?? null,
  };
}

/** Returns the report for a caller that has no call which the next Undo could undo. */
export function emptyUndoReport({ unknown }: OpenUndos): UndoReport {
  return {
    v: 1,
    status: "nothing",
    call_id: null,
    app_id: null,
    tool: null,
    compensation: null,
    result: null,
    error: null,
    attempts: 0,
    remaining: 0,
    unknown,
    ledger: null,
  };
}
