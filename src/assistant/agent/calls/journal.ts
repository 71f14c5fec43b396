import { join } from "node:path";
import {
  type Durability,
  migrate,
  openDatabase,
  type SqliteDatabase,
  sqliteFailure,
} from "../../../base/sqlite.ts";
import { AssistantError } from "../../errors.ts";
import type { NewEntry } from "../../ledger/port.ts";
import type { CallDetail, CallEnd } from "../port.ts";
import type { Compensation } from "./compensation.ts";
import type { CallPlace } from "./entries.ts";
import { journalMigrations } from "./journal-schema.ts";
import { type JournalStatements, journalStatements } from "./journal-statements.ts";

/** Ended calls are kept for so long, and so many of them: for whoever asks again how a call ended. */
const KEPT_MS = 24 * 60 * 60 * 1_000;
const KEPT_CALLS_MAX = 10_000;
/** Calls that can be undone are kept longer, but not for ever. */
const KEPT_UNDO_MAX = 1_000;
/** So many calls end before those that are too old are looked for again. */
const PRUNE_EVERY = 100;
/** What is kept of a result; the requester has had all of it. */
const DETAIL_CHARS_MAX = 1024 * 1024;

export interface JournaledCall extends CallPlace {
  readonly requester: string | undefined;
  readonly argsText: string;
}

export interface EndedCall {
  readonly requester: string | undefined;
  readonly end: CallEnd;
}

export interface UnfinishedCall extends CallPlace {
  readonly state: "parked" | "dispatching";
}

export interface UndoableCall extends CallPlace {
  readonly requester: string | undefined;
  readonly compensation: Compensation;
  readonly attempts: number;
}

/**
 * The companion's own memory of calls: `<dir>/agent.db`. Each method is one transaction, which is on the
 * disk when it returns. Throws AssistantError `ledger_unavailable` where the file cannot be used: a call that
 * cannot be journaled does not happen either.
 */
export class Journal implements Disposable {
  readonly #db: SqliteDatabase;
  readonly #sql: JournalStatements;
  #endsUntilPrune = PRUNE_EVERY;

  constructor(options: { readonly dir: string; readonly durability: Durability }) {
    const file = join(options.dir, "agent.db");
    this.#db = openDatabase({ file, durability: options.durability });
    migrate(this.#db, journalMigrations);
    this.#sql = journalStatements(this.#db);
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
  end(
    callId: number,
    from: "parked" | "dispatching",
    end: CallEnd,
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
        detail: JSON.stringify(keptDetail(end.detail)),
        executed,
        undoTool: compensation?.tool ?? null,
        undoArgs: compensation?.argsText ?? null,
        undoState: compensation ? "ready" : null,
      });
      if (changes === 1) this.#owe(owed);
      return changes === 1;
    });
    this.#endsUntilPrune -= 1;
    if (this.#endsUntilPrune <= 0) this.prune(endedMs);
    return hasEnded;
  }

  ended(callId: number): EndedCall | undefined {
    const row = this.#transact(() => this.#sql.ended.get(callId));
    if (!row) return undefined;
    const detail: CallDetail = JSON.parse(row.detail);
    return { requester: row.requester ?? undefined, end: { status: row.status, detail } };
  }

  /** What a daemon that has died left open. */
  unfinished(): readonly UnfinishedCall[] {
    return this.#transact(() => this.#sql.unfinished.all());
  }

  prune(nowMs: number): void {
    this.#endsUntilPrune = PRUNE_EVERY;
    this.#transact(() => {
      this.#sql.dropUndo.run(KEPT_UNDO_MAX);
      this.#sql.prune.run({ before: nowMs - KEPT_MS, kept: KEPT_CALLS_MAX });
    });
  }

  /** The last executed call that can be undone; of all, or of those that `requester` asked for. */
  undoTop(requester: string | undefined, except: ReadonlySet<number>): UndoableCall | undefined {
    const [top] = this.#undoables(requester, except);
    return top === undefined ? undefined : this.undoable(top);
  }

  undoCount(requester: string | undefined, except: ReadonlySet<number>): number {
    return this.#undoables(requester, except).length;
  }

  undoable(callId: number): UndoableCall | undefined {
    const row = this.#transact(() => this.#sql.undoable.get(callId));
    if (!row) return undefined;
    const { call, app, tool, attempts, undoTool, undoArgs } = row;
    const compensation = { tool: undoTool, args: JSON.parse(undoArgs), argsText: undoArgs };
    return { call, app, tool, attempts, requester: row.requester ?? undefined, compensation };
  }

  /** ready -> running, and one attempt more. */
  undoStarted(callId: number): void {
    this.#transact(() => this.#sql.undoStarted.run(callId));
  }

  /** running -> ready, as if it had not been tried. */
  undoNotStarted(callId: number): void {
    this.#transact(() => this.#sql.undoNotStarted.run(callId));
  }

  undoEnded(
    callId: number,
    state: "ready" | "undone" | "skipped",
    owed: readonly NewEntry[],
  ): void {
    this.#transact(() => {
      this.#sql.undoEnded.run(state, callId);
      this.#owe(owed);
    });
  }

  /** Compensations that a daemon that has died left running; `tool` is the compensation. */
  undosUnderWay(): readonly (CallPlace & { readonly attempts: number })[] {
    return this.#transact(() => this.#sql.undosUnderWay.all());
  }

  owe(entry: NewEntry): void {
    this.#transact(() => this.#owe([entry]));
  }

  /** The entry that has been owed for longest. */
  owed(): { readonly id: number; readonly entry: NewEntry } | undefined {
    const row = this.#transact(() => this.#sql.owed.get());
    return row && { id: row.id, entry: JSON.parse(row.entry) };
  }

  paid(id: number): void {
    this.#transact(() => this.#sql.paid.run(id));
  }

  changedTool(appId: string, tool: string): ChangedTool | undefined {
    const row = this.#transact(() => this.#sql.changedTool.get(appId, tool));
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
  #undoables(requester: string | undefined, except: ReadonlySet<number>): number[] {
    const ids = this.#transact(() => this.#sql.undoables.all({ requester: requester ?? null }));
    return ids.filter((id) => !except.has(id));
  }

  #owe(entries: readonly NewEntry[]): void {
    for (const entry of entries) this.#sql.owe.run(JSON.stringify(entry));
  }

  #transact<T>(work: () => T): T {
    try {
      return this.#db.transaction(work).immediate();
    } catch (error) {
      throw new AssistantError("ledger_unavailable", "the journal of calls cannot be used", {
        cause: sqliteFailure(error),
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

function keptDetail(detail: CallDetail): CallDetail {
  if (JSON.stringify(detail).length <= DETAIL_CHARS_MAX) return detail;
  const { result: _result, content: _content, ...rest } = detail;
  return { ...rest, message: `${detail.message}; the result is too large to be kept` };
}
