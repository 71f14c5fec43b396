import { join } from "node:path";
import {
  type Durability,
  mapSqliteError,
  migrate,
  openDatabase,
  type SqliteDatabase,
} from "../../../base/sqlite.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { NewEntry } from "../../ledger/port.ts";
import type { CallDetail, CallResult } from "../port.ts";
import type { CallReference } from "./call-entries.ts";
import { callJournalMigrations } from "./call-journal-schema.ts";
import {
  type CallJournalStatements,
  type OpenUndoState,
  prepareStatements,
  type ToolTier,
} from "./call-journal-statements.ts";
import type { Compensation } from "./compensation.ts";

/**
 * Ended calls are kept this long, and at most RETAINED_CALLS_MAX of them, so that a repeated confirmation gets the same
 * answer as the first one.
 */
const RETENTION_MS = 24 * 60 * 60 * 1_000;
const RETAINED_CALLS_MAX = 10_000;
/** Calls that can be undone are kept without a time limit, but at most this number of them. */
const RETAINED_UNDOS_MAX = 1_000;
/** Old calls are deleted each time this number of calls has ended. */
const PRUNE_EVERY = 100;
/**
 * If the result of a call, as JSON text, has more characters than this, the result is stored without the tool's output,
 * which the requester has already received.
 */
const DETAIL_CHARS_MAX = 1024 * 1024;

export interface JournaledCall extends CallReference {
  readonly requester: string | undefined;
  readonly argsText: string;
}

export interface EndedCall {
  readonly requester: string | undefined;
  readonly result: CallResult;
}

export interface UnfinishedCall extends CallReference {
  readonly state: "parked" | "dispatching";
}

/** The state of an undo after an attempt, or after the user skipped it. */
export type UndoEndState = "ready" | "unknown" | "undone" | "skipped";

export interface UndoableCall extends CallReference {
  readonly requester: string | undefined;
  readonly undoState: OpenUndoState;
  readonly compensation: Compensation;
  readonly attempts: number;
}

/**
 * The companion's journal of calls, `<dir>/agent.db`. Each method is one transaction, which is on the disk when the
 * method returns. Throws AssistantError `ledger_unavailable` if the file cannot be used: a call that cannot be
 * journaled does not run.
 */
export class CallJournal implements Disposable {
  readonly #db: SqliteDatabase;
  readonly #sql: CallJournalStatements;
  #endsUntilPrune = PRUNE_EVERY;

  constructor(options: { readonly dir: string; readonly durability: Durability }) {
    const file = join(options.dir, "agent.db");
    this.#db = openDatabase({ file, durability: options.durability });
    migrate(this.#db, callJournalMigrations);
    this.#sql = prepareStatements(this.#db);
  }

  /** Reserves `count` ids and returns the first. No id is ever reserved twice. */
  reserveIds(count: number): number {
    return this.#transact(() => {
      const next = Number(this.#sql.nextId.get());
      this.#sql.setNextId.run(next + count);
      return next;
    });
  }

  /** Takes back the reserved ids from `next` on, if they are the last ones that were reserved. */
  returnIds(next: number, reservedEnd: number): void {
    this.#transact(() => {
      if (Number(this.#sql.nextId.get()) === reservedEnd) this.#sql.setNextId.run(next);
    });
  }

  add(call: JournaledCall, state: "parked" | "dispatching"): void {
    const { call: id, app, tool, requester, argsText } = call;
    this.#transact(() => this.#sql.add.run(id, state, app, tool, requester ?? null, argsText));
  }

  /** Moves a call from parked to dispatching. Returns false if the call is no longer parked. */
  claim(callId: number): boolean {
    return this.#transact(() => this.#sql.move.run("dispatching", callId, "parked").changes === 1);
  }

  /** Moves a call from state `dispatching` back to `parked` if its app was not called after all. */
  release(callId: number): boolean {
    return this.#transact(() => this.#sql.move.run("parked", callId, "dispatching").changes === 1);
  }

  /** Deletes the row of a call that should run at once but did not reach its app. */
  forget(callId: number): void {
    this.#transact(() => this.#sql.forget.run(callId));
  }

  /**
   * Moves a call from state `from` to ended, and stores its compensation and the entries for the outbox. Returns
   * false and writes nothing if the call is not in state `from`.
   */
  recordResult(
    callId: number,
    from: "parked" | "dispatching",
    end: CallResult,
    details: {
      readonly endedMs: number;
      readonly compensation?: Compensation | undefined;
      readonly queuedEntries?: readonly NewEntry[];
    },
  ): boolean {
    const { endedMs, compensation, queuedEntries = [] } = details;
    const hasEnded = this.#transact(() => {
      const row = this.#buildResultRow(callId, end, compensation);
      const { changes } = this.#sql.end.run({ ...row, from, endedMs });
      if (changes === 1) this.#enqueueEntries(queuedEntries);
      return changes === 1;
    });
    this.#endsUntilPrune -= 1;
    if (this.#endsUntilPrune <= 0) this.prune(endedMs);
    return hasEnded;
  }

  /**
   * Replaces the result of a failed call by the app's late answer. Returns false and writes nothing if the journal has
   * no failed result of the call.
   */
  recordLateResult(
    callId: number,
    end: CallResult,
    compensation: Compensation | undefined,
  ): boolean {
    return this.#transact(() => {
      const row = this.#buildResultRow(callId, end, compensation);
      return this.#sql.lateResult.run(row).changes === 1;
    });
  }

  findEnded(callId: number): EndedCall | undefined {
    const row = this.#transact(() => this.#sql.ended.get(callId));
    if (!row) return undefined;
    const detail: CallDetail = JSON.parse(row.detail);
    return { requester: row.requester ?? undefined, result: { status: row.status, detail } };
  }

  /** Returns the calls that a daemon left open when it died. */
  listUnfinished(): readonly UnfinishedCall[] {
    return this.#transact(() => this.#sql.unfinished.all());
  }

  prune(nowMs: number): void {
    this.#endsUntilPrune = PRUNE_EVERY;
    this.#transact(() => {
      this.#sql.expireOldUndos.run(RETAINED_UNDOS_MAX);
      this.#sql.prune.run({ before: nowMs - RETENTION_MS, kept: RETAINED_CALLS_MAX });
    });
  }

  /**
   * Returns the calls whose undo has not ended, the last executed call first. If `requester` is given, calls of other
   * callers are ignored.
   */
  listOpenUndos(
    requester: string | undefined,
  ): readonly { readonly call: number; readonly undoState: OpenUndoState }[] {
    return this.#transact(() => this.#sql.openUndos.all({ requester: requester ?? null }));
  }

  findUndoable(callId: number): UndoableCall | undefined {
    const row = this.#transact(() => this.#sql.undoable.get(callId));
    if (!row) return undefined;
    const { requester, undoTool, undoArgs, ...rest } = row;
    const compensation = { tool: undoTool, args: JSON.parse(undoArgs), argsText: undoArgs };
    return { ...rest, requester: requester ?? undefined, compensation };
  }

  /** Moves the undo of a call to running and counts one more attempt. */
  markUndoStarted(callId: number): void {
    this.#transact(() => this.#sql.undoStarted.run(callId));
  }

  /** Moves the undo of a call from running back to the state before the attempt, which then does not count. */
  revertUndoStarted(callId: number, before: OpenUndoState): void {
    this.#transact(() => this.#sql.undoNotStarted.run(before, callId));
  }

  recordUndoEnd(callId: number, state: UndoEndState, queuedEntries: readonly NewEntry[]): void {
    this.#transact(() => {
      this.#sql.undoEnded.run(state, callId);
      this.#enqueueEntries(queuedEntries);
    });
  }

  /** Marks a call as undone after its compensation has reported success in a late answer. */
  recordUndoneLate(callId: number): void {
    this.#transact(() => this.#sql.undoneLate.run(callId));
  }

  /**
   * Moves an undo from `unknown` to `ready` after its compensation has reported a failure in a late answer. Does
   * nothing if there was another attempt since.
   */
  recordUndoFailedLate(callId: number, attempts: number): void {
    this.#transact(() => this.#sql.undoFailedLate.run(callId, attempts));
  }

  /**
   * Returns the compensations that were running when a daemon died. The field `tool` names the compensation, not the
   * reverted tool.
   */
  listRunningUndos(): readonly (CallReference & { readonly attempts: number })[] {
    return this.#transact(() => this.#sql.runningUndos.all());
  }

  enqueueEntry(entry: NewEntry): void {
    this.#transact(() => this.#enqueueEntries([entry]));
  }

  /** Returns the oldest entry of the outbox. */
  oldestQueuedEntry(): { readonly id: number; readonly entry: NewEntry } | undefined {
    const row = this.#transact(() => this.#sql.oldestQueuedEntry.get());
    return row && { id: row.id, entry: JSON.parse(row.entry) };
  }

  removeQueuedEntry(id: number): void {
    this.#transact(() => this.#sql.removeQueuedEntry.run(id));
  }

  findChangedTool(appId: string, tool: string): ChangedTool | undefined {
    const row = this.#transact(() => this.#sql.findChangedTool.get(appId, tool));
    return row && { ...row, isApproved: row.approved === 1 };
  }

  setChangedTool(appId: string, tool: string, changed: ChangedTool): void {
    const { declared, live, isApproved } = changed;
    this.#transact(() =>
      this.#sql.setChangedTool.run(appId, tool, declared, live, isApproved ? 1 : 0),
    );
  }

  listToolTiers(): readonly ToolTier[] {
    return this.#transact(() => this.#sql.toolTiers.all());
  }

  setToolTiers(tiers: readonly ToolTier[]): void {
    this.#transact(() => {
      for (const tier of tiers) this.#sql.setToolTier.run(tier);
    });
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  #buildResultRow(callId: number, end: CallResult, compensation: Compensation | undefined) {
    return {
      callId,
      status: end.status,
      detail: JSON.stringify(truncateDetail(end.detail)),
      executed: compensation ? (this.#sql.lastExecuted.get() ?? 0) + 1 : null,
      undoTool: compensation?.tool ?? null,
      undoArgs: compensation?.argsText ?? null,
      undoState: compensation ? "ready" : null,
    };
  }

  #enqueueEntries(entries: readonly NewEntry[]): void {
    for (const entry of entries) this.#sql.enqueueEntry.run(JSON.stringify(entry));
  }

  #transact<T>(work: () => T): T {
    try {
      return this.#db.transaction(work).immediate();
    } catch (error) {
      throw new AssistantError("ledger_unavailable", "the call journal cannot be used", {
        cause: mapSqliteError(error),
      });
    }
  }
}

export interface ChangedTool {
  /** Digest of the tool's declaration in the app's manifest. */
  readonly declared: string;
  /** Digest of the definition that the running app reported for the tool. */
  readonly live: string;
  readonly isApproved: boolean;
}

function truncateDetail(detail: CallDetail): CallDetail {
  if (JSON.stringify(detail).length <= DETAIL_CHARS_MAX) return detail;
  const { result: _result, content: _content, ...rest } = detail;
  return { ...rest, message: `${detail.message}; the result is too large to be stored` };
}
