import type { Kind, SpecOf } from "../resources/kinds.ts";
import type { UncheckedField } from "../resources/privileged-fields.ts";
import type { Resource, StatusOf } from "../resources/resource.ts";
import type { BuildRecords } from "./build-records.ts";
import type { AddressLeases, PortLeases } from "./leases.ts";
import type { WebhookStore } from "./webhook-store.ts";

export type { BuildRecord, BuildRecordState, BuildRecords } from "./build-records.ts";
export type {
  DeliveryOutcome,
  DeliveryRecord,
  WebhookRecord,
  WebhookStore,
} from "./webhook-store.ts";

export type DiskState = "ok" | "full" | "gone";

/**
 * The durable state of Berth. Calls are synchronous, because SQLite takes microseconds. A call that writes desired
 * state returns when the write is on the disk. Reconcilers write status and events. The API, the command line (through
 * the API) and the watched folder write desired state.
 */
export interface Store extends AsyncDisposable {
  /** Eight random hexadecimal digits of the data directory, in the name or a label of all that the instance owns. */
  readonly instanceId: string;
  /** Identifies the data directory; a copy of it, or a backup that is restored elsewhere, has another id. */
  readonly holderId: string;

  get<K extends Kind>(kind: K, name: string): Resource<K> | undefined;
  /** Returns the resources sorted by name. */
  list<K extends Kind>(
    kind: K,
    filter?: { readonly labels?: Readonly<Record<string, string>> },
  ): Resource<K>[];

  /**
   * Writes desired state under a field manager.
   *
   * Throws InvalidSpecError (the merged result is not valid), ConflictError `name_taken` (with `createOnly`),
   * `field_owned` (a field of a file, unless forced), `conflict` (another file declares the resource, another import or
   * template made the App, the resource is being deleted, or the App would mount a folder of the machine with fields of
   * writers without the scope `admin`), NotFoundError (with `updateOnly`), PrivilegeError (the actor may not do this),
   * and whatever `admit` throws.
   */
  apply<K extends Kind>(intent: ApplyIntent<K>, admit?: Admission<K>): ApplyResult<K>;

  /**
   * Requests a deletion: sets deletionTimestamp, or removes a resource without finalizers immediately. Throws
   * NotFoundError; ConflictError `field_owned` if a file declares the resource and `force` is not set.
   */
  delete(kind: Kind, name: string, intent: DeleteIntent): Resource;

  /**
   * Lists the fields that no writer with the scope `admin` has set or confirmed. Leaves out labels, and fields of the
   * life cycle such as `replicas`. Returns an empty list if there is no such resource.
   */
  listUncheckedFields(kind: Kind, name: string): readonly UncheckedField[];

  /**
   * Returns the reason why containers must not mount a path of this machine now; undefined if they may. The reason
   * completes a sentence that begins with the path. Follows symbolic links, so it has to be called before each start of
   * a container.
   */
  findMountProblem(path: string): string | undefined;
  /** Returns why a folder must not be built now, for a message that begins with the path; undefined if it may be. */
  findSourceProblem(folder: string): string | undefined;

  /** Removes a finalizer. With the last one, the resource, its status and its revisions are removed. */
  removeFinalizer(kind: Kind, name: string, finalizer: string): void;

  /**
   * Writes a status. Like events and revisions, it survives a crash of Berth. The latest writes are not flushed to the
   * disk, and a power cut may lose them, because reconcilers can compute them again. Does nothing if the status is
   * unchanged, or if the resource is gone or has another uid. Never changes the generation. With `isKeptInMemory` a
   * full disk is not an error: until `checkDisk` writes the status, `get` and `list` return it from memory, and
   * watchers are not notified.
   */
  setStatus<K extends Kind>(
    kind: K,
    name: string,
    uid: string,
    status: StatusOf[K],
    options?: { readonly isKeptInMemory?: boolean },
  ): void;
  /**
   * Returns `full` while the disk has no space for writes, `gone` if the database is no longer in the data directory,
   * and `ok` otherwise. If there is space, also writes the statuses that were only in memory.
   */
  checkDisk(): DiskState;
  /** True while the status of a resource is only in memory. `lastSequence` does not change with such a status. */
  readonly hasUnsavedStatus: boolean;

  /** Returns the resources that managers whose names begin with `managerPrefix` declare now, by those names. */
  listDeclared(managerPrefix: string): ReadonlyMap<string, readonly ResourceKey[]>;
  /** Removes a manager from a resource. The fields of the manager keep their values, but have no owner any more. */
  releaseManager(kind: Kind, name: string, manager: string): void;

  readonly events: EventLog;
  readonly revisions: RevisionLog;
  readonly audit: AuditLog;
  readonly secrets: SecretValues;
  readonly tokens: TokenStore;
  readonly settings: Settings;
  readonly ports: PortLeases;
  readonly addresses: AddressLeases;
  readonly ownedImages: OwnedImages;
  readonly builds: BuildRecords;
  readonly sourcePins: SourcePins;
  readonly webhooks: WebhookStore;

  /**
   * Commits all writes of `work` in one transaction, with one flush to the disk. If `work` throws, commits none of
   * them. Watchers are called after the commit. `work` must be synchronous.
   */
  batch<T>(work: () => T): T;

  /**
   * Returns the result of `work`, and undoes its writes. Inside `batch`, undoes only the writes of `work`. `work` must
   * be synchronous.
   */
  preview<T>(work: () => T): T;

  /**
   * Calls `listener` after each committed change, in order, in the same turn of the event loop. To miss no change, the
   * caller reads `changesSince` in the same turn. Returns a function that stops the watch.
   */
  watch(listener: (change: StoreChange) => void): () => void;
  /** Returns the changes after `sequence`, oldest first; undefined if some were trimmed (the caller lists again). */
  changesSince(sequence: number, limit: number): readonly StoreChange[] | undefined;
  readonly lastSequence: number;

  /** Returns the digests of archives that the spec or a kept revision of an App names. The App `except` is ignored. */
  archivesInUse(except?: string): ReadonlySet<string>;

  /** Writes a backup to `file` while the store is in use; see backupStore. */
  backup(file: string): Promise<void>;
}

export interface ResourceKey {
  readonly kind: Kind;
  readonly name: string;
}

export interface Actor {
  /** The name of the actor: `user:admin`, `token:<name>`, `file:<path>` or `controller`. */
  readonly name: string;
  readonly requestId?: string;
  /** The scope of the writer, see WriteGuard. Default: write. */
  readonly scope?: TokenScope;
  /** The part of a message that says how to get the scope `admin`. Default: `use a token of the scope admin`. */
  readonly adminHint?: string;
}

/** The writer that set a field to its value, and the scope that the writer had. */
export interface FieldAuthor {
  readonly name: string;
  readonly scope: TokenScope;
}

export interface ApplyIntent<K extends Kind = Kind> {
  readonly kind: K;
  readonly name: string;
  readonly manager: string;
  readonly actor: Actor;
  /** The author of the fields, if the actor writes what another writer has chosen; default: the actor. */
  readonly author?: FieldAuthor;
  /**
   * replace: the manager owns exactly the given fields. Fields that it owned before and no longer gives are removed
   * (server-side apply). merge: sets the given fields and keeps all others; null removes a field.
   */
  readonly mode: "replace" | "merge";
  readonly spec: Partial<SpecOf[K]> | Readonly<Record<string, unknown>>;
  readonly labels?: Readonly<Record<string, string | null>>;
  readonly annotations?: Readonly<Record<string, string | null>>;
  /** If true, the write takes over fields from their owners. */
  readonly force?: boolean;
  /** True if `manager` is a spec file, and this write applies the file's declaration of the resource. */
  readonly declares?: boolean;
  /** Managers whose documents disappear in the same step (a rename). The writing manager gets their fields. */
  readonly takeOverFrom?: readonly string[];
  /** Lets the write take over an App of another origin. Set only if the request contains no other App. */
  readonly takeOver?: boolean;
  readonly createOnly?: boolean;
  readonly updateOnly?: boolean;
  /** Computes and validates the result without writing anything. */
  readonly dryRun?: boolean;
}

/**
 * Checks a change against the rest of the store before it is written, also in a dry run. `candidate` is the resource
 * as the change would leave it. The check refuses the change by throwing.
 */
export type Admission<K extends Kind> = (candidate: Resource<K>) => void;

export interface FieldChange {
  /** The JSON Pointer of the field within the resource, such as /spec/image. */
  readonly path: string;
  /** `before` and `after` are undefined if the field is not set. Values of secrets are shown as "(secret)". */
  readonly before: unknown;
  readonly after: unknown;
}

export interface ApplyResult<K extends Kind = Kind> {
  /** The resource after the write; after a dry run, the resource that the write would produce. */
  readonly resource: Resource<K>;
  readonly created: boolean;
  readonly changes: readonly FieldChange[];
  /** Fields of this document that the write does not change, because another manager has taken them over with force. */
  readonly yielded: readonly string[];
}

export interface DeleteIntent {
  readonly actor: Actor;
  readonly manager: string;
  readonly force?: boolean;
  readonly deleteVolumes?: boolean;
  /** If true, the files of a Model are deleted together with the Model. */
  readonly deleteFiles?: boolean;
  readonly dryRun?: boolean;
}

export interface StoreChange {
  readonly sequence: number;
  readonly type: "added" | "modified" | "deleted" | "status" | "event";
  readonly kind: Kind | null;
  readonly name: string;
  readonly generation: number;
  readonly time: string;
  /** The recorded event, if the change has the type `event`. */
  readonly event?: EventRecord;
}

export interface EventRecord {
  readonly id: number;
  readonly kind: Kind | null;
  /** The name of the resource; empty for an event of Berth itself. */
  readonly name: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly firstTime: string;
  readonly lastTime: string;
}

export interface EventLog {
  /** If an equal event was recorded in the last ten minutes, increments its count. Otherwise adds the event. */
  record(event: {
    kind: Kind | null;
    name: string;
    type: "Normal" | "Warning";
    reason: string;
    message: string;
  }): EventRecord;
  /** Returns events, newest first. */
  list(filter: { kind?: Kind; name?: string; limit: number }): EventRecord[];
}

/** A version of an App's effective spec, recorded when the rollout of the version begins. */
export interface Revision {
  readonly app: string;
  /** The number of the revision, counted from 1 for each app. */
  readonly number: number;
  readonly generation: number;
  /** A hash of everything that determines the containers. Different versions have different hashes. */
  readonly specHash: string;
  readonly spec: SpecOf["App"];
  readonly image: string | null;
  /** The engine's id of the image that every container of the revision runs; null if the image was never available. */
  readonly imageId: string | null;
  /** The digest of the image in its registry; null if no registry is known to have it. */
  readonly digest: string | null;
  readonly createdAt: string;
  /** The state of the revision: at first attempted, then stable or quarantined. */
  readonly state: "attempted" | "stable" | "quarantined";
  readonly message: string | null;
  /** The last writer of the desired state when the revision was recorded. */
  readonly actor: string;
  /** `admin` if writers of that scope set or confirmed every field that decides what the App runs; else `write`. */
  readonly scope: TokenScope;
}

export interface RevisionLog {
  /**
   * Returns the app's revision with this hash, updated to this spec (which may differ in fields that do not affect
   * containers), or a new one with the next number. Deletes old revisions, except the newest REVISIONS_KEPT_MAX and
   * those in the App's status.
   */
  ensure(input: {
    app: string;
    generation: number;
    specHash: string;
    spec: SpecOf["App"];
    image: string | null;
    imageId: string | null;
    digest?: string | null;
  }): Revision;
  /**
   * Changes the image of a revision, if its own image no longer exists and was built again. `specHash` is the new hash
   * of the revision. If another revision has that hash already, the revision keeps its old hash.
   */
  replaceImage(app: string, number: number, image: { imageId: string; specHash: string }): void;
  mark(app: string, number: number, state: Revision["state"], message: string | null): void;
  /** Returns the revisions of an app, newest first. */
  list(app: string): Revision[];
  get(app: string, number: number): Revision | undefined;
  /** Returns the names of the Apps with a kept revision that may mount a path of the machine. Parses no revision. */
  listAppsWithHostPaths(): ReadonlySet<string>;
}

export interface AuditEntry {
  readonly id: number;
  readonly time: string;
  readonly actor: string;
  readonly requestId: string | null;
  readonly action:
    | "create"
    | "update"
    | "delete"
    | "login"
    | "login_failed"
    | "token_create"
    | "token_revoke"
    | "prune_confirm"
    | "specs_sync"
    | "webhook_create"
    | "webhook_delete"
    | "webhook_test"
    | "webhook_redeliver";
  readonly kind: Kind | null;
  readonly name: string;
  readonly changes: readonly FieldChange[];
}

export interface AuditLog {
  append(entry: Omit<AuditEntry, "id" | "time">): void;
  /** Returns audit entries, newest first. */
  list(filter: { kind?: Kind; name?: string; limit: number; before?: number }): AuditEntry[];
}

export interface SecretValues {
  /** Returns a Secret's plaintext by key; undefined for a missing Secret. For reconcilers and signature checks only. */
  reveal(name: string): Readonly<Record<string, string>> | undefined;
}

export type TokenScope = "read" | "write" | "admin";

export interface TokenRecord {
  readonly id: string;
  readonly name: string;
  readonly scope: TokenScope;
  readonly kind: "session" | "named" | "local";
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

export interface TokenStore {
  /** Creates a token and returns it. The store keeps only its sha256. Throws ConflictError `name_taken`. */
  create(input: {
    name: string;
    scope: TokenScope;
    kind: TokenRecord["kind"];
    lifetimeMs: number | null;
  }): { token: string; record: TokenRecord };
  /** Finds a token; returns undefined if the token is unknown, revoked or expired. */
  find(token: string): TokenRecord | undefined;
  list(): TokenRecord[];
  /** Revokes a token. Returns false if there is no such token. */
  revoke(id: string): boolean;
}

export interface Settings {
  get(key: string): string | undefined;
  set(key: string, value: string): void;
}

/** Images that Berth itself pulled or built, and that it may therefore remove. */
export interface OwnedImages {
  add(reference: string, app: string): void;
  list(app: string): string[];
  remove(reference: string, app: string): void;
  /** Returns true if an App other than `app` also owns the image `reference`. */
  isUsedByOthers(reference: string, app: string): boolean;
}

/** The revisions to which the sources of Apps were resolved: a commit, an archive or the content of a folder. */
export interface SourcePins {
  get(app: string): SourcePin | undefined;
  set(app: string, pin: SourcePin): void;
  remove(app: string): void;
}

export interface SourcePin {
  /** A digest of the source and of the last request to resolve the source again. If it changes, the pin is outdated. */
  readonly key: string;
  readonly revision: string;
  readonly resolvedAtMs: number;
}
