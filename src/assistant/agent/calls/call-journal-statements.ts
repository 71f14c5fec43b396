import type Database from "better-sqlite3";
import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { CallStatus, Tier } from "../port.ts";

interface CallReferenceRow {
  readonly call: number;
  readonly app: string;
  readonly tool: string;
}

/** The states in which the undo of a call has not ended. */
export type OpenUndoState = "ready" | "running" | "unknown";

interface UndoRow extends CallReferenceRow {
  readonly requester: string | null;
  readonly undoState: OpenUndoState;
  readonly undoTool: string;
  readonly undoArgs: string;
  readonly attempts: number;
}

const referenceColumns = "call_id AS call, app_id AS app, tool";

interface ResultRow {
  readonly callId: number;
  readonly status: CallStatus;
  readonly detail: string;
  readonly executed: number | null;
  readonly undoTool: string | null;
  readonly undoArgs: string | null;
  readonly undoState: string | null;
}

interface EndRow extends ResultRow {
  readonly from: string;
  readonly endedMs: number;
}

/** The prepared statements of the journal. */
export interface CallJournalStatements {
  readonly nextId: Database.Statement<[], number>;
  readonly setNextId: Database.Statement<[number]>;
  /** Stores a call. SQL parameters: id, state, app, tool, requester, arguments. */
  readonly add: Database.Statement<[number, string, string, string, string | null, string]>;
  /**
   * Changes the state of a call. SQL parameters: the new state, the id, the current state. A call that is not in this
   * current state is not changed.
   */
  readonly move: Database.Statement<[string, number, string]>;
  readonly forget: Database.Statement<[number]>;
  readonly lastExecuted: Database.Statement<[], number | null>;
  readonly end: Database.Statement<[EndRow]>;
  /** Replaces the result of a failed call. */
  readonly lateResult: Database.Statement<[ResultRow]>;
  readonly ended: Database.Statement<
    [number],
    { readonly requester: string | null; readonly status: CallStatus; readonly detail: string }
  >;
  readonly unfinished: Database.Statement<
    [],
    CallReferenceRow & { readonly state: "parked" | "dispatching" }
  >;
  /**
   * Marks the undo of the oldest calls as skipped. SQL parameter: the number of calls that can still be undone
   * afterwards.
   */
  readonly expireOldUndos: Database.Statement<[number]>;
  readonly prune: Database.Statement<[{ readonly before: number; readonly kept: number }]>;

  /**
   * Returns the ids and undo states of the calls whose undo has not ended, the last executed call first. The query does
   * not read their arguments, because the arguments of one call can take up to a megabyte.
   */
  readonly openUndos: Database.Statement<
    [{ readonly requester: string | null }],
    { readonly call: number; readonly undoState: OpenUndoState }
  >;
  readonly undoable: Database.Statement<[number], UndoRow>;
  readonly undoStarted: Database.Statement<[number]>;
  /**
   * Restores the undo state of a call after an attempt that did not start. SQL parameters: the undo state before the
   * attempt, the id of the call.
   */
  readonly undoNotStarted: Database.Statement<[string, number]>;
  readonly undoEnded: Database.Statement<[string, number]>;
  readonly undoneLate: Database.Statement<[number]>;
  /**
   * Records a late answer that reports that the undo of a call failed. SQL parameters: the id of the call, the number
   * of attempts.
   */
  readonly undoFailedLate: Database.Statement<[number, number]>;
  readonly runningUndos: Database.Statement<[], CallReferenceRow & { readonly attempts: number }>;

  readonly enqueueEntry: Database.Statement<[string]>;
  readonly oldestQueuedEntry: Database.Statement<
    [],
    { readonly id: number; readonly entry: string }
  >;
  readonly removeQueuedEntry: Database.Statement<[number]>;

  readonly findChangedTool: Database.Statement<
    [string, string],
    { readonly declared: string; readonly live: string; readonly approved: number }
  >;
  /**
   * Stores a tool whose live definition differs from its declaration. SQL parameters: app, tool, digest of the
   * declaration, digest of the live definition, and 1 if the user approved the live definition.
   */
  readonly setChangedTool: Database.Statement<[string, string, string, string, number]>;

  readonly toolTiers: Database.Statement<[], ToolTier>;
  readonly setToolTier: Database.Statement<[ToolTier]>;
}

/** The tier of a tool, as last recorded. The user relies on this tier: a lower one needs the user's approval. */
export interface ToolTier {
  readonly appId: string;
  readonly tool: string;
  readonly tier: Tier;
}

export function prepareStatements(db: SqliteDatabase): CallJournalStatements {
  return {
    nextId: db.prepare<[], number>("SELECT next FROM ids").pluck(),
    setNextId: db.prepare("UPDATE ids SET next = ?"),

    add: db.prepare(
      "INSERT INTO calls (call_id, state, app_id, tool, requester, args) VALUES (?, ?, ?, ?, ?, ?)",
    ),
    move: db.prepare("UPDATE calls SET state = ? WHERE call_id = ? AND state = ?"),
    forget: db.prepare("DELETE FROM calls WHERE call_id = ? AND state = 'dispatching'"),
    lastExecuted: db.prepare<[], number | null>("SELECT max(executed) FROM calls").pluck(),
    end: db.prepare(
      `UPDATE calls SET state = 'ended', args = NULL, ended_ms = @endedMs, status = @status,
         detail = @detail, executed = @executed, undo_tool = @undoTool, undo_args = @undoArgs,
         undo_state = @undoState
       WHERE call_id = @callId AND state = @from`,
    ),
    lateResult: db.prepare(
      `UPDATE calls SET status = @status, detail = @detail, executed = @executed,
         undo_tool = @undoTool, undo_args = @undoArgs, undo_state = @undoState
       WHERE call_id = @callId AND state = 'ended' AND status = 'failed'`,
    ),
    ended: db.prepare(
      "SELECT requester, status, detail FROM calls WHERE call_id = ? AND state = 'ended'",
    ),
    unfinished: db.prepare(
      `SELECT ${referenceColumns}, state FROM calls WHERE state <> 'ended' ORDER BY call_id`,
    ),
    expireOldUndos: db.prepare(
      `UPDATE calls SET undo_state = 'skipped' WHERE undo_state IN ('ready', 'unknown') AND executed <=
         (SELECT executed FROM calls WHERE undo_state IN ('ready', 'unknown')
            ORDER BY executed DESC LIMIT 1 OFFSET ?)`,
    ),
    prune: db.prepare(
      `DELETE FROM calls WHERE state = 'ended' AND ifnull(undo_state, '') NOT IN ('ready', 'running', 'unknown')
         AND (ended_ms < @before OR call_id <= (SELECT call_id FROM calls WHERE state = 'ended'
           ORDER BY call_id DESC LIMIT 1 OFFSET @kept))`,
    ),

    openUndos: db.prepare(
      `SELECT call_id AS call, undo_state AS undoState FROM calls
       WHERE undo_state IN ('ready', 'running', 'unknown')
         AND (@requester IS NULL OR requester = @requester) ORDER BY executed DESC`,
    ),
    undoable: db.prepare(
      `SELECT ${referenceColumns}, requester, undo_tool AS undoTool, undo_args AS undoArgs,
         undo_state AS undoState, undo_attempts AS attempts
       FROM calls WHERE call_id = ? AND undo_state IN ('ready', 'running', 'unknown')`,
    ),
    undoStarted: db.prepare(
      "UPDATE calls SET undo_state = 'running', undo_attempts = undo_attempts + 1 WHERE call_id = ?",
    ),
    undoNotStarted: db.prepare(
      "UPDATE calls SET undo_state = ?, undo_attempts = undo_attempts - 1 WHERE call_id = ?",
    ),
    undoEnded: db.prepare("UPDATE calls SET undo_state = ? WHERE call_id = ?"),
    undoneLate: db.prepare(
      "UPDATE calls SET undo_state = 'undone' WHERE call_id = ? AND undo_state = 'unknown'",
    ),
    undoFailedLate: db.prepare(
      `UPDATE calls SET undo_state = 'ready'
       WHERE call_id = ? AND undo_state = 'unknown' AND undo_attempts = ?`,
    ),
    runningUndos: db.prepare(
      `SELECT call_id AS call, app_id AS app, undo_tool AS tool, undo_attempts AS attempts
       FROM calls WHERE undo_state = 'running'`,
    ),

    enqueueEntry: db.prepare("INSERT INTO owed (entry) VALUES (?)"),
    oldestQueuedEntry: db.prepare("SELECT id, entry FROM owed ORDER BY id LIMIT 1"),
    removeQueuedEntry: db.prepare("DELETE FROM owed WHERE id = ?"),

    findChangedTool: db.prepare(
      "SELECT declared, live, approved FROM changed_tools WHERE app_id = ? AND tool = ?",
    ),
    setChangedTool: db.prepare(
      `INSERT OR REPLACE INTO changed_tools (app_id, tool, declared, live, approved)
       VALUES (?, ?, ?, ?, ?)`,
    ),

    toolTiers: db.prepare("SELECT app_id AS appId, tool, tier FROM tool_tiers"),
    setToolTier: db.prepare(
      "INSERT OR REPLACE INTO tool_tiers (app_id, tool, tier) VALUES (@appId, @tool, @tier)",
    ),
  };
}
