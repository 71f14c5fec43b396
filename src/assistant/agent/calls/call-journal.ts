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
import { type CallJournalStatements, prepareStatements } from "./call-journal-statements.ts";
import type { Compensation } from "./compensation.ts";

/** Ended calls are kept for so long, and so many of them: for whoever asks again how a call ended. */
const RETENTION_MS = 24 * 60 * 60 * 1_000;
const RETAINED_CALLS_MAX = 10_000;
/** Calls that can be undone are kept longer, but not for ever. */
const RETAINED_UNDOS_MAX = 1_000;
/** So many calls end before those that are too old are looked for again. */
const PRUNE_EVERY = 100;
/** What is kept of a result; the requester has had all of it. */
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

export interface UndoableCall extends CallReference {
  readonly requester: string | undefined;
  readonly compensation: Compensation;
  readonly attempts: number;
}

/**
 * The companion's own memory of calls: `<dir>/agent.db`. Each method is one transaction, which is on the
 * disk when it returns. Throws AssistantError `ledger_unavailable` where the file cannot be used: a call that
 * cannot be journaled does not happen either.
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

  /** The first of `count` ids that nobody has had, whatever happens from now on. */
  reserveIds(count: number): number {
    return this.#transact(() => {
      const next = Number(this.#sql.nextId.get());
      this.#sql.setNextId.run(next + count);
      return next;
    });
  }

  add(call: JournaledCall, state: "parked" | "dispatching"): void {
    const { call: id, app, tool, requester, argsText } = call;
    this.#transact(() => this.#sql.add.run(id, state, app, tool, requester ?? null, argsText));
  }

  /** parked -> dispatching. False: somebody else has decided. */
  claim(callId: number): boolean {
    return this.#transact(() => this.#sql.move.run("dispatching", callId, "parked").changes === 1);
  }

  /** dispatching -> parked, where nothing has happened. */
  release(callId: number): boolean {
    return this.#transact(() => this.#sql.move.run("parked", callId, "dispatching").changes === 1);
  }

  /** Of a call that ran at once, where nothing has happened. */
  forget(callId: number): void {
    this.#transact(() => this.#sql.forget.run(callId));
  }

  /**
   * -> ended, together with its compensation and with the entries that the ledger is still owed. False where
   * the call is not in state `from`: then nothing is written.
   */
  recordResult(
    callId: number,
    from: "parked" | "dispatching",
    end: CallResult,
    details: {
      readonly endedMs: number;
      readonly compensation?: Compensation | undefined;
      readonly owed?: readonly NewEntry[];
    },
  ): boolean {
    const { endedMs, compensation, owed = [] } = details;
    const hasEnded = this.#transact(() => {
      const executed = compensation ? (this.#sql.lastExecuted.get() ?? 0) + 1 : null;
      const { changes } = this.#sql.end.run({
        callId,
        from,
        endedMs,
        status: end.status,
        detail: JSON.stringify(truncateDetail(end.detail)),
        executed,
        undoTool: compensation?.tool ?? null,
        undoArgs: compensation?.argsText ?? null,
        undoState: compensation ? "ready" : null,
      });
      if (changes === 1) this.#enqueueEntries(owed);
      return changes === 1;
    });
    this.#endsUntilPrune -= 1;
    if (this.#endsUntilPrune <= 0) this.prune(endedMs);
    return hasEnded;
  }

  findEnded(callId: number): EndedCall | undefined {
    const row = this.#transact(() => this.#sql.ended.get(callId));
    if (!row) return undefined;
    const detail: CallDetail = JSON.parse(row.detail);
    return { requester: row.requester ?? undefined, result: { status: row.status, detail } };
  }

  /** What a daemon that has died left open. */
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

  /** The last executed call that can be undone; of all, or of those that `requester` asked for. */
  findLastUndoable(
    requester: string | undefined,
    except: ReadonlySet<number>,
  ): UndoableCall | undefined {
    const [top] = this.#listUndoableIds(requester, except);
    return top === undefined ? undefined : this.findUndoable(top);
  }

  countUndoable(requester: string | undefined, except: ReadonlySet<number>): number {
    return this.#listUndoableIds(requester, except).length;
  }

  findUndoable(callId: number): UndoableCall | undefined {
    const row = this.#transact(() => this.#sql.undoable.get(callId));
    if (!row) return undefined;
    const { call, app, tool, attempts, undoTool, undoArgs } = row;
    const compensation = { tool: undoTool, args: JSON.parse(undoArgs), argsText: undoArgs };
    return { call, app, tool, attempts, requester: row.requester ?? undefined, compensation };
  }

  /** ready -> running, and one attempt more. */
  markUndoStarted(callId: number): void {
    this.#transact(() => this.#sql.undoStarted.run(callId));
  }

  /** running -> ready, as if it had not been tried. */
  revertUndoStarted(callId: number): void {
    this.#transact(() => this.#sql.undoNotStarted.run(callId));
  }

  recordUndoEnd(
    callId: number,
    state: "ready" | "undone" | "skipped",
    owed: readonly NewEntry[],
  ): void {
    this.#transact(() => {
      this.#sql.undoEnded.run(state, callId);
      this.#enqueueEntries(owed);
    });
  }

  /** Compensations that a daemon that has died left running; `tool` is the compensation. */
  listRunningUndos(): readonly (CallReference & { readonly attempts: number })[] {
    return this.#transact(() => this.#sql.runningUndos.all());
  }

  enqueueEntry(entry: NewEntry): void {
    this.#transact(() => this.#enqueueEntries([entry]));
  }

  /** The entry that has been owed for longest. */
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

  [Symbol.dispose](): void {
    this.#db.close();
  }

  /** Ids, the last one first. */
  #listUndoableIds(requester: string | undefined, except: ReadonlySet<number>): number[] {
    const ids = this.#transact(() => this.#sql.undoables.all({ requester: requester ?? null }));
    return ids.filter((id) => !except.has(id));
  }

  #enqueueEntries(entries: readonly NewEntry[]): void {
    for (const entry of entries) this.#sql.enqueueEntry.run(JSON.stringify(entry));
  }

  #transact<T>(work: () => T): T {
    try {
      return this.#db.transaction(work).immediate();
    } catch (error) {
      throw new AssistantError("ledger_unavailable", "the journal of calls cannot be used", {
        cause: mapSqliteError(error),
      });
    }
  }
}

export interface ChangedTool {
  /** Digest of the declaration in the manifest. */
  readonly declared: string;
  /** Digest of what the app had instead. */
  readonly live: string;
  readonly isApproved: boolean;
}

function truncateDetail(detail: CallDetail): CallDetail {
  if (JSON.stringify(detail).length <= DETAIL_CHARS_MAX) return detail;
  const { result: _result, content: _content, ...rest } = detail;
  return { ...rest, message: `${detail.message}; the result is too large to be kept` };
}
