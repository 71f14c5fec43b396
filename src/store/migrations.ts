import type { Migration } from "../base/sqlite.ts";

/**
 * The migrations of the schema. Never edit a released migration; add another one instead. The number of a migration
 * is its position in the list, counted from 1; SQLite's user_version stores the last applied one.
 */
export const migrations: readonly Migration[] = [
  `
  -- What the store knows of itself; never shown, never written by callers.
  CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- A Secret's spec holds a keyed fingerprint in place of each value.
  CREATE TABLE resources (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    labels TEXT NOT NULL,
    annotations TEXT NOT NULL,
    generation INTEGER NOT NULL,
    resource_version INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    deletion_timestamp TEXT,
    finalizers TEXT NOT NULL,
    owners TEXT NOT NULL,
    managers TEXT NOT NULL,
    -- Who last changed the desired state; revisions quote it.
    actor TEXT NOT NULL,
    status TEXT,
    PRIMARY KEY (kind, name)
  ) STRICT;

  CREATE TABLE secret_values (
    kind TEXT NOT NULL DEFAULT 'Secret' CHECK (kind = 'Secret'),
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (name, key),
    FOREIGN KEY (kind, name) REFERENCES resources (kind, name) ON DELETE CASCADE
  ) STRICT;

  -- AUTOINCREMENT: a sequence is never used twice, whatever has been trimmed.
  CREATE TABLE changes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    kind TEXT,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,
    time TEXT NOT NULL,
    event TEXT
  ) STRICT;

  -- touched is the sequence of the change that last counted the event up: it orders the list.
  CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_time TEXT NOT NULL,
    last_time TEXT NOT NULL,
    touched INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX events_by_resource ON events (name, kind, touched);
  CREATE INDEX events_by_touched ON events (touched);

  CREATE TABLE revisions (
    app TEXT NOT NULL,
    number INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    spec_hash TEXT NOT NULL,
    spec TEXT NOT NULL,
    image TEXT,
    image_id TEXT,
    created_at TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT,
    actor TEXT NOT NULL,
    PRIMARY KEY (app, number),
    UNIQUE (app, spec_hash)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    actor TEXT NOT NULL,
    request_id TEXT,
    action TEXT NOT NULL,
    kind TEXT,
    name TEXT NOT NULL,
    changes TEXT NOT NULL
  ) STRICT;
  CREATE INDEX audit_by_resource ON audit (name, kind, id);

  CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at_ms INTEGER,
    last_used_at TEXT
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE port_leases (
    app TEXT NOT NULL,
    replica INTEGER NOT NULL,
    container_port INTEGER NOT NULL,
    port INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (app, replica, container_port)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE owned_images (
    app TEXT NOT NULL,
    reference TEXT NOT NULL,
    PRIMARY KEY (app, reference)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX owned_images_by_reference ON owned_images (reference);
  `,
  `
  -- Attempts to make an image of a source. Their logs are files.
  CREATE TABLE builds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app TEXT NOT NULL,
    generation INTEGER NOT NULL,
    source TEXT NOT NULL,
    revision TEXT NOT NULL,
    image TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT,
    image_bytes INTEGER,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT
  ) STRICT;
  CREATE INDEX builds_by_app ON builds (app, id);
  CREATE INDEX builds_by_image ON builds (image);

  -- Which commit, archive or folder content the source of an App stands for.
  CREATE TABLE source_pins (
    app TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    revision TEXT NOT NULL,
    resolved_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- secret is sealed like the values of Secrets; events and apps are JSON lists, empty for all.
  CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    apps TEXT NOT NULL,
    secret BLOB NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- number gives the order, id is what receivers see.
  CREATE TABLE webhook_deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    app TEXT,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at_ms INTEGER,
    status INTEGER,
    message TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT
  ) STRICT;
  CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook, state, number);

  -- What receivers have been told of each App, so that nothing is told twice.
  CREATE TABLE app_notices (
    app TEXT PRIMARY KEY,
    told TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- The digest of a revision's image in its registry, by which it can be pulled again.
  ALTER TABLE revisions ADD COLUMN digest TEXT;
  `,
  `
  -- Who gave each field its value, with which scope. Empty: unknown, which counts as a writer without the scope admin.
  ALTER TABLE resources ADD COLUMN authors TEXT NOT NULL DEFAULT '{}';
  -- admin if a writer of that scope had set or confirmed every field of the App that decides what it runs.
  ALTER TABLE revisions ADD COLUMN scope TEXT NOT NULL DEFAULT 'write';
  `,
  `
  -- Revisions that may mount a path of the machine, which are few, so that a check of mounts need not read all the others.
  CREATE INDEX revisions_with_host_paths ON revisions (app) WHERE instr(spec, '"hostPath"') > 0;
  `,
  `
  -- Pairs of addresses that only Berth assigns on its network.
  CREATE TABLE address_leases (
    app TEXT NOT NULL,
    replica INTEGER NOT NULL,
    pair INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (app, replica)
  ) STRICT, WITHOUT ROWID;
  `,
];
