import { randomBytes } from "node:crypto";
import { mkdirSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Clock, timestamp } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/logger.ts";
import {
  type Durability,
  mapSqliteError,
  migrate,
  openDatabase,
  type SqliteDatabase,
} from "../base/sqlite.ts";
import type { Kind } from "../resources/kinds.ts";
import type { UncheckedField } from "../resources/privileged-fields.ts";
import type { Resource, StatusOf } from "../resources/resource.ts";
import { validateManifest } from "../resources/validate-manifest.ts";
import { SqliteAddressLeases } from "./address-leases.ts";
import { findArchivesInUse } from "./archives-in-use.ts";
import { SqliteAuditLog } from "./audit.ts";
import { backupStore } from "./backup.ts";
import { findBackupContent } from "./backup-content.ts";
import { SqliteBuildRecords } from "./builds.ts";
import { ChangeLog } from "./change-log.ts";
import { SqliteEventLog } from "./events.ts";
import { flattenFields } from "./field-leaves.ts";
import { readHolderId } from "./holder-id.ts";
import { type HostPathOptions, HostPaths } from "./host-paths.ts";
import { loadSecretKey } from "./load-secret-key.ts";
import { migrations } from "./migrations.ts";
import { SqliteOwnedImages } from "./owned-images.ts";
import { SqlitePortLeases } from "./port-leases.ts";
import { ResourceTable } from "./resource-table.ts";
import { ResourceWriter } from "./resource-writer.ts";
import { assertNoInterruptedRestore } from "./restore.ts";
import { SqliteRevisionLog } from "./revisions.ts";
import { SqliteSecretValues } from "./secret-values.ts";
import { SqliteSourcePins } from "./source-pins.ts";
import type {
  Admission,
  ApplyIntent,
  ApplyResult,
  DeleteIntent,
  DiskState,
  ResourceKey,
  Store,
  StoreChange,
} from "./store.ts";
import { acquireStoreLock, type StoreLock } from "./store-lock.ts";
import { SqliteSettings } from "./store-settings.ts";
import { SqliteTokenStore } from "./tokens.ts";
import { Transactions } from "./transactions.ts";
import { listUncheckedFields } from "./unchecked-fields.ts";
import { UnsavedStatuses } from "./unsaved-statuses.ts";
import { SqliteWebhookStore } from "./webhooks.ts";
import { WriteGuard } from "./write-guard.ts";

export interface StoreOptions {
  /** The data directory, which is created with mode 0700 if it does not exist. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** Logs the errors that watchers of the store's changes throw. */
  readonly logger?: Logger;
  /**
   * The durability of writes. Default: full. With off, which is for simulations only, a power cut may damage the
   * store.
   */
  readonly durability?: Durability;
  /** The maximum size of the database file, in bytes. Writes beyond it fail with `disk_full`. Default: no limit. */
  readonly sizeMaxBytes?: number;
  /**
   * Throws InvalidSpecError for a document that is not valid. Default: validateManifest with the rule `mayLackSource`.
   */
  readonly validate?: (document: unknown) => unknown;
  /** The paths of the machine that writers without the scope `admin` may mount. Default: none. */
  readonly hostPaths?: Pick<HostPathOptions, "allowed" | "reserved">;
  /** The domain below which Apps have their default domains. Default: localhost. */
  readonly baseDomain?: string;
  /** The names of the catalog's templates. Only the scope `admin` may replace them. Default: none. */
  readonly catalogTemplates?: readonly string[];
  /** Called before each write. An error that it throws makes the write fail. Default: nothing. */
  readonly beforeWrite?: () => void;
  /** The id of a new data directory: eight hexadecimal characters. Default: random. */
  readonly instanceId?: string;
}

/**
 * Opens the store of a data directory, or creates it. Locks out other processes until the store is disposed of. Throws
 * BerthErrors `store_locked` (with the process that holds the lock), `store_corrupt`, `disk_full`, `wrong_state` (a
 * newer Berth has written the store).
 */
export function openStore(options: StoreOptions): Store {
  let lock: StoreLock | undefined;
  let db: SqliteDatabase | undefined;
  try {
    mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
    lock = acquireStoreLock(options.dataDir, options.clock);
    const durability = options.durability ?? "full";
    assertNoInterruptedRestore(options.dataDir);
    db = openDatabase({
      file: getDatabaseFile(options.dataDir),
      durability,
      sizeMaxBytes: options.sizeMaxBytes,
    });
    migrate(db, migrations);
    return new SqliteStore(db, lock, { ...options, durability });
  } catch (error) {
    db?.close();
    lock?.release();
    throw mapSqliteError(error);
  }
}

function getDatabaseFile(dataDir: string): string {
  return join(dataDir, "berth.db");
}

/** The minimum of free space. With less space SQLite cannot write its journal, so the disk counts as full. */
const FREE_BYTES_MIN = 1024 * 1024;

function readInode(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.ino;
}

function isDiskFull(error: unknown): boolean {
  return error instanceof BerthError && error.code === "disk_full";
}

class SqliteStore implements Store {
  readonly instanceId: string;
  readonly holderId: string;
  readonly events: SqliteEventLog;
  readonly revisions: SqliteRevisionLog;
  readonly audit: SqliteAuditLog;
  readonly secrets: SqliteSecretValues;
  readonly tokens: SqliteTokenStore;
  readonly settings: SqliteSettings;
  readonly ports: SqlitePortLeases;
  readonly addresses: SqliteAddressLeases;
  readonly ownedImages: SqliteOwnedImages;
  readonly builds: SqliteBuildRecords;
  readonly sourcePins: SqliteSourcePins;
  readonly webhooks: SqliteWebhookStore;
  readonly #db: SqliteDatabase;
  readonly #lock: StoreLock;
  readonly #key: Buffer;
  readonly #dataDir: string;
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #resources: ResourceTable;
  readonly #changes: ChangeLog;
  readonly #guard: WriteGuard;
  readonly #writer: ResourceWriter;
  readonly #backups = new Set<Promise<void>>();
  readonly #unsaved = new UnsavedStatuses();
  readonly #databaseInode: number | undefined;

  constructor(
    db: SqliteDatabase,
    lock: StoreLock,
    options: StoreOptions & { readonly durability: Durability },
  ) {
    const { clock } = options;
    this.#db = db;
    this.#lock = lock;
    this.#clock = clock;
    this.#dataDir = options.dataDir;
    this.#databaseInode = readInode(getDatabaseFile(options.dataDir));
    const resources = new ResourceTable(db);
    const changes = new ChangeLog(db, clock, options.logger ?? silentLogger);
    const transactions = new Transactions(db, {
      beforeWrite: options.beforeWrite ?? (() => {}),
      onCommit: () => {
        resources.onCommit();
        changes.onCommit();
      },
      onRollback: (changesKept) => {
        changes.onRollback(changesKept);
        resources.onRollback();
      },
      countChanges: () => changes.pendingCount,
    });
    this.#resources = resources;
    this.#changes = changes;
    this.#transactions = transactions;
    const meta = new SqliteSettings(db, transactions, "meta");
    this.#key = loadSecretKey(options, meta);
    this.instanceId = loadInstanceId(options, meta);
    this.holderId = readHolderId(options.dataDir);
    this.events = new SqliteEventLog(db, clock, transactions, changes);
    this.audit = new SqliteAuditLog(db, clock, transactions);
    this.builds = new SqliteBuildRecords(db, clock, transactions);
    this.sourcePins = new SqliteSourcePins(db, transactions);
    this.revisions = new SqliteRevisionLog(db, clock, transactions, resources);
    this.secrets = new SqliteSecretValues(db, this.#key);
    this.tokens = new SqliteTokenStore(db, clock, transactions);
    this.settings = new SqliteSettings(db, transactions, "settings");
    this.ports = new SqlitePortLeases(db, transactions, this.instanceId);
    this.addresses = new SqliteAddressLeases(db, transactions);
    this.ownedImages = new SqliteOwnedImages(db, transactions);
    this.webhooks = new SqliteWebhookStore(db, clock, transactions, this.secrets);
    this.#guard = new WriteGuard({
      hostPaths: openHostPaths(options, this.settings),
      listApps: () => this.list("App"),
      revisions: this.revisions,
      baseDomain: options.baseDomain ?? "localhost",
      catalogTemplates: options.catalogTemplates ?? [],
      listUncheckedFields: (kind, name) => this.listUncheckedFields(kind, name),
    });
    this.#writer = new ResourceWriter({
      guard: this.#guard,
      clock,
      transactions,
      resources,
      changes,
      audit: this.audit,
      revisions: this.revisions,
      ports: this.ports,
      addresses: this.addresses,
      secrets: this.secrets,
      validate:
        options.validate ?? ((document) => validateManifest(document, { mayLackSource: true })),
    });
  }

  get<K extends Kind>(kind: K, name: string): Resource<K> | undefined {
    return this.#transactions.read(() => {
      const stored = this.#resources.read(kind, name);
      return stored && this.#unsaved.apply(this.#resources.getResource(stored, kind));
    });
  }

  list<K extends Kind>(
    kind: K,
    filter: { readonly labels?: Readonly<Record<string, string>> } = {},
  ): Resource<K>[] {
    const wanted = Object.entries(filter.labels ?? {});
    return this.#transactions.read(() =>
      this.#resources
        .readAll(kind)
        .filter((stored) => wanted.every(([key, value]) => stored.labels[key] === value))
        .map((stored) => this.#unsaved.apply(this.#resources.getResource(stored, kind))),
    );
  }

  apply<K extends Kind>(intent: ApplyIntent<K>, admit?: Admission<K>): ApplyResult<K> {
    return this.#writer.apply(intent, admit);
  }

  delete(kind: Kind, name: string, intent: DeleteIntent): Resource {
    return this.#writer.delete(kind, name, intent);
  }

  listUncheckedFields(kind: Kind, name: string): readonly UncheckedField[] {
    const stored = this.#transactions.read(() => this.#resources.read(kind, name));
    if (!stored) return [];
    return listUncheckedFields({ leaves: flattenFields(stored), authors: stored.authors });
  }

  findMountProblem(path: string): string | undefined {
    return this.#guard.findMountProblem(path);
  }

  findSourceProblem(folder: string): string | undefined {
    return this.#guard.findSourceProblem(folder);
  }

  removeFinalizer(kind: Kind, name: string, finalizer: string): void {
    this.#writer.removeFinalizer(kind, name, finalizer);
  }

  setStatus<K extends Kind>(
    kind: K,
    name: string,
    uid: string,
    status: StatusOf[K],
    { isKeptInMemory = false }: { readonly isKeptInMemory?: boolean } = {},
  ): void {
    const save = () => this.#writer.setStatus(kind, name, uid, status);
    try {
      save();
      this.#unsaved.delete(kind, name);
    } catch (error) {
      if (!isKeptInMemory || !isDiskFull(error)) throw error;
      this.#unsaved.set(kind, name, uid, status, save);
    }
  }

  get hasUnsavedStatus(): boolean {
    return this.#unsaved.size > 0;
  }

  checkDisk(): DiskState {
    if (this.#databaseInode !== readInode(getDatabaseFile(this.#dataDir))) return "gone";
    try {
      if (this.#unsaved.size > 0) this.#unsaved.save();
      // Attempts a small write, because a failed write is the only sign that a disk quota is used up.
      else this.#transactions.writeLazily(() => {});
    } catch (error) {
      if (isDiskFull(error)) return "full";
      throw error;
    }
    const { bavail, bsize } = statfsSync(this.#dataDir);
    return bavail * bsize < FREE_BYTES_MIN ? "full" : "ok";
  }

  releaseManager(kind: Kind, name: string, manager: string): void {
    this.#writer.releaseManager(kind, name, manager);
  }

  listDeclared(managerPrefix: string): ReadonlyMap<string, readonly ResourceKey[]> {
    const declared = new Map<string, ResourceKey[]>();
    for (const { kind, name, managers } of this.#transactions.read(() =>
      this.#resources.readAllKinds(),
    )) {
      for (const [manager, entry] of Object.entries(managers)) {
        if (!entry.declares || !manager.startsWith(managerPrefix)) continue;
        declared.set(manager, [...(declared.get(manager) ?? []), { kind, name }]);
      }
    }
    return declared;
  }

  batch<T>(work: () => T): T {
    return this.#transactions.write(work);
  }

  preview<T>(work: () => T): T {
    return this.#transactions.preview(work);
  }

  watch(listener: (change: StoreChange) => void): () => void {
    return this.#changes.watch(listener);
  }

  changesSince(sequence: number, limit: number): readonly StoreChange[] | undefined {
    return this.#transactions.read(() => this.#changes.since(sequence, limit));
  }

  get lastSequence(): number {
    return this.#changes.lastSequence;
  }

  archivesInUse(except?: string): ReadonlySet<string> {
    return this.#transactions.read(() => findArchivesInUse(this, except));
  }

  async backup(file: string): Promise<void> {
    const dataDir = this.#dataDir;
    const running = backupStore({
      db: this.#db,
      key: this.#key,
      dataDir,
      // The archives are listed after the database was copied. Archives that Apps have named since then are not needed,
      // because the copy does not refer to them. Archives of Apps that were deleted since then are not needed either.
      findContent: () => findBackupContent(this, dataDir, timestamp(this.#clock.now())),
      file,
    });
    this.#backups.add(running);
    try {
      await running;
    } finally {
      this.#backups.delete(running);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#backups);
    this.#changes.close();
    if (this.#db.open) this.#db.close();
    this.#lock.release();
  }
}

/**
 * Creates the HostPaths of the store. Every folder that was ever allowed is stored, because Apps may still mount it.
 */
function openHostPaths(
  { dataDir, hostPaths }: Pick<StoreOptions, "dataDir" | "hostPaths">,
  settings: SqliteSettings,
): HostPaths {
  const key = "hostPaths.allowed";
  const stored: unknown = JSON.parse(settings.get(key) ?? "[]");
  const known = Array.isArray(stored) ? stored.map(String) : [];
  const allowed = hostPaths?.allowed ?? [];
  const formerlyAllowed = [...new Set([...known, ...allowed])];
  if (formerlyAllowed.length > known.length) settings.set(key, JSON.stringify(formerlyAllowed));
  return new HostPaths({ ...hostPaths, dataDir, formerlyAllowed });
}

function loadInstanceId(options: { readonly instanceId?: string }, meta: SqliteSettings): string {
  const known = meta.get("instanceId");
  if (known !== undefined) return known;
  const made = options.instanceId ?? randomBytes(4).toString("hex");
  meta.set("instanceId", made);
  return made;
}
