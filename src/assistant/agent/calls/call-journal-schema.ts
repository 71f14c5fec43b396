import type { Migration } from "../../../base/sqlite.ts";

/**
 * The table `calls` holds the calls that were parked and the calls that can be undone. A call that runs at once and
 * cannot be undone is recorded only in the ledger, which saves a flush of this database.
 *
 * The column `state` of a call changes as follows:
 *
 * - A confirmed call changes from `parked` to `dispatching`, and then to `ended`.
 * - A call that is declined, expired, no longer allowed, or interrupted by a restart changes from `parked` to `ended`.
 * - A call whose dispatch the ledger rejected changes from `dispatching` to `parked`; its app was not called.
 * - A call that runs at once starts as `dispatching` and changes to `ended`.
 *
 * A late answer of the app replaces the result of an ended call whose outcome was unknown.
 *
 * The column `undo_state` of an executed call with a compensation begins as `ready`. It changes to `running` and then
 * to `undone`, back to `ready` if the compensation failed, or to `unknown` if it is unknown whether the compensation
 * took effect. From `unknown` it changes to `running` if the user tries again, and to `undone` or `ready` if the app
 * answers late. If the user skips the call, it changes to `skipped`.
 */
export const callJournalMigrations: readonly Migration[] = [
  `
  CREATE TABLE ids (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Every id below has been, or may have been, given to a call.
    next INTEGER NOT NULL
  ) STRICT;
  INSERT INTO ids (one, next) VALUES (1, 1);

  CREATE TABLE calls (
    call_id INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('parked', 'dispatching', 'ended')),
    app_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- The sandboxed app that requested the call; NULL: a program outside a sandbox.
    requester TEXT,
    -- Canonical JSON; NULL after the call has ended.
    args TEXT,
    ended_ms INTEGER,
    status TEXT CHECK (status IN ('executed', 'failed', 'denied')),
    -- detail_json, for callers that confirm an ended call again.
    detail TEXT,
    -- Grows with each executed call that can be undone.
    executed INTEGER UNIQUE,
    undo_tool TEXT,
    undo_args TEXT,
    undo_state TEXT CHECK (undo_state IN ('ready', 'running', 'undone', 'skipped')),
    undo_attempts INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'ended') = (status IS NOT NULL)),
    CHECK ((state = 'ended') = (detail IS NOT NULL)),
    CHECK ((undo_state IS NULL) = (executed IS NULL))
  ) STRICT;
  CREATE INDEX calls_open ON calls (call_id) WHERE state <> 'ended';
  CREATE INDEX calls_ended ON calls (ended_ms) WHERE state = 'ended';
  CREATE INDEX calls_undo ON calls (executed) WHERE undo_state IN ('ready', 'running');

  -- The outbox: ledger entries that the ledger has rejected so far.
  CREATE TABLE owed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry TEXT NOT NULL
  ) STRICT;

  -- Tools whose live definition last differed from the manifest.
  CREATE TABLE changed_tools (
    app_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    declared TEXT NOT NULL,
    live TEXT NOT NULL,
    approved INTEGER NOT NULL CHECK (approved IN (0, 1)),
    PRIMARY KEY (app_id, tool)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- The tier of each tool that was ever declared: the highest one since the user last approved a lower one.
  CREATE TABLE tool_tiers (
    app_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    tier TEXT NOT NULL CHECK (tier IN ('read', 'write', 'destructive')),
    PRIMARY KEY (app_id, tool)
  ) STRICT, WITHOUT ROWID;
  `,
  // This migration adds the undo state `unknown`. SQLite cannot change a CHECK, so the table is created again.
  `
  CREATE TABLE calls_with_unknown_undo (
    call_id INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('parked', 'dispatching', 'ended')),
    app_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    requester TEXT,
    args TEXT,
    ended_ms INTEGER,
    status TEXT CHECK (status IN ('executed', 'failed', 'denied')),
    detail TEXT,
    executed INTEGER UNIQUE,
    undo_tool TEXT,
    undo_args TEXT,
    undo_state TEXT CHECK (undo_state IN ('ready', 'running', 'unknown', 'undone', 'skipped')),
    undo_attempts INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'ended') = (status IS NOT NULL)),
    CHECK ((state = 'ended') = (detail IS NOT NULL)),
    CHECK ((undo_state IS NULL) = (executed IS NULL))
  ) STRICT;
  INSERT INTO calls_with_unknown_undo SELECT * FROM calls;
  DROP TABLE calls;
  ALTER TABLE calls_with_unknown_undo RENAME TO calls;
  CREATE INDEX calls_open ON calls (call_id) WHERE state <> 'ended';
  CREATE INDEX calls_ended ON calls (ended_ms) WHERE state = 'ended';
  CREATE INDEX calls_undo ON calls (executed) WHERE undo_state IN ('ready', 'running', 'unknown');
  `,
];
