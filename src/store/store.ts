import type { Kind, SpecOf } from "../resources/kinds.ts";
import type { Resource, StatusOf } from "../resources/resource.ts";
import type { WebhookStore } from "./webhook-store.ts";

export type {
  DeliveryOutcome,
  DeliveryRecord,
  WebhookRecord,
  WebhookStore,
} from "./webhook-store.ts";

/**
 * Everything that Berth must remember. Calls are synchronous: SQLite answers in microseconds, and a
 * write of desired state that has returned is durable. Reconcilers write status and events; the API, the command
 * line (through the API) and the watched folder write desired state.
 */
export interface Store extends AsyncDisposable {
  /** Eight hexadecimal characters, made with the data directory; labels everything this instance owns. */
  readonly instanceId: string;

  get<K extends Kind>(kind: K, name: string): Resource<K> | undefined;
  /** By name, in order. */
  list<K extends Kind>(
    kind: K,
    filter?: { readonly labels?: Readonly<Record<string, string>> },
  ): Resource<K>[];

  /**
   * Writes desired state under a field manager.
   *
   * Throws InvalidSpecError (the merged result is not valid), ConflictError `name_taken` (with
   * `createOnly`), `field_owned` (a field of another file, unless forced), `conflict` (another file declares it, or
   * the resource is being deleted), NotFoundError (with `updateOnly`), and whatever `admit` throws.
   */
  apply<K extends Kind>(intent: ApplyIntent<K>, admit?: Admission<K>): ApplyResult<K>;

  /**
   * Asks for a deletion: sets deletionTimestamp, or removes the resource at once where no finalizer
   * holds it. Throws NotFoundError; ConflictError `field_owned` when a file declares the resource and `force` is not set.
   */
  delete(kind: Kind, name: string, intent: DeleteIntent): Resource;

  /** Ends a deletion step; the last finalizer takes the resource, its status and its revisions away. */
  removeFinalizer(kind: Kind, name: string, finalizer: string): void;

  /**
   * Writes status. Like events and revisions it survives a crash of Berth, but the last ones perhaps
   * not a power cut: reconcilers find them out anew. Does nothing when it is equal to what is there, or when the resource is gone or
   * has another uid. Never touches generation.
   */
  setStatus<K extends Kind>(kind: K, name: string, uid: string, status: StatusOf[K]): void;

  /** Names of the resources that each `file:` manager declares now: manager to [kind, name][]. */
  listDeclared(managerPrefix: string): ReadonlyMap<string, readonly ResourceKey[]>;
  /** Ends a manager's part in a resource: its fields lose their owner but stay. */
  releaseManager(kind: Kind, name: string, manager: string): void;

  readonly events: EventLog;
  readonly revisions: RevisionLog;
  readonly audit: AuditLog;
  readonly secrets: SecretValues;
  readonly tokens: TokenStore;
  readonly settings: Settings;
  readonly ports: PortLeases;
  readonly ownedImages: OwnedImages;
  readonly builds: BuildRecords;
  readonly sourcePins: SourcePins;
  readonly webhooks: WebhookStore;

  /**
   * Commits all writes that `work` makes together, or none of them where it throws: one flush to
   * the disk instead of one each. Watchers hear of them afterwards. `work` is synchronous.
   */
  batch<T>(work: () => T): T;

  /**
   * Calls `listener` after each committed change, in order, in the same turn of the event loop.
   * Nothing is lost: a listener that was away reads `changesSince` first. Returns the way to stop.
   */
  watch(listener: (change: StoreChange) => void): () => void;
  /** Changes after `sequence`, oldest first; undefined where they have been trimmed (list again then). */
  changesSince(sequence: number, limit: number): readonly StoreChange[] | undefined;
  readonly lastSequence: number;

  /** Writes a consistent copy of the whole store to `file`, while in use. */
  backup(file: string): Promise<void>;
}

export interface ResourceKey {
  readonly kind: Kind;
  readonly name: string;
}

export interface Actor {
  /** `user:admin`, `token:<name>`, `file:<path>`, `controller`. */
  readonly name: string;
  readonly requestId?: string;
}

export interface ApplyIntent<K extends Kind = Kind> {
  readonly kind: K;
  readonly name: string;
  readonly manager: string;
  readonly actor: Actor;
  /**
   * replace: the manager owns exactly the fields given here; those that it owned and no longer gives
   * are removed (server-side apply). merge: sets the fields given here and leaves others; null removes a field.
   */
  readonly mode: "replace" | "merge";
  readonly spec: Partial<SpecOf[K]> | Readonly<Record<string, unknown>>;
  readonly labels?: Readonly<Record<string, string | null>>;
  readonly annotations?: Readonly<Record<string, string | null>>;
  /** Takes fields over from their owners. */
  readonly force?: boolean;
  /** The manager is a file and this document declares the resource. */
  readonly declares?: boolean;
  /** Managers whose documents are gone in the same step (a rename): their fields pass to this one. */
  readonly takeOverFrom?: readonly string[];
  readonly createOnly?: boolean;
  readonly updateOnly?: boolean;
  /** Works everything out, validates it, and writes nothing. */
  readonly dryRun?: boolean;
}

/**
 * Checks a change against the rest of the store before it is written, also in a dry run. `candidate` is the resource
 * as the change would leave it. The check refuses the change by throwing.
 */
export type Admission<K extends Kind> = (candidate: Resource<K>) => void;

export interface FieldChange {
  /** JSON Pointer below the resource, such as /spec/image. */
  readonly path: string;
  /** Undefined where there was, or is, nothing. Secret values are shown as "(secret)". */
  readonly before: unknown;
  readonly after: unknown;
}

export interface ApplyResult<K extends Kind = Kind> {
  /** The resource as it is now, or as a dry run would leave it. */
  readonly resource: Resource<K>;
  readonly created: boolean;
  readonly changes: readonly FieldChange[];
  /** Fields of this document that stay with whoever took them with force. */
  readonly yielded: readonly string[];
}

export interface DeleteIntent {
  readonly actor: Actor;
  readonly manager: string;
  readonly force?: boolean;
  readonly deleteVolumes?: boolean;
  /** A Model's files go with it. */
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
  /** For type event: the event. */
  readonly event?: EventRecord;
}

export interface EventRecord {
  readonly id: number;
  readonly kind: Kind | null;
  /** Empty for an event of Berth itself. */
  readonly name: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly firstTime: string;
  readonly lastTime: string;
}

export interface EventLog {
  /** The same kind, name, type, reason and message within ten minutes counts up instead of adding a row. */
  record(event: {
    kind: Kind | null;
    name: string;
    type: "Normal" | "Warning";
    reason: string;
    message: string;
  }): EventRecord;
  /** Newest first. */
  list(filter: { kind?: Kind; name?: string; limit: number }): EventRecord[];
}

/** One version of an App's effective spec that the reconciler took up. */
export interface Revision {
  readonly app: string;
  /** Counts from 1 for each app. */
  readonly number: number;
  readonly generation: number;
  /** What tells two versions apart: the hash of all that makes a container. */
  readonly specHash: string;
  readonly spec: SpecOf["App"];
  readonly image: string | null;
  readonly imageId: string | null;
  readonly createdAt: string;
  /** attempted -> stable, or attempted -> quarantined. */
  readonly state: "attempted" | "stable" | "quarantined";
  readonly message: string | null;
  readonly actor: string;
}

export interface RevisionLog {
  /**
   * The app's revision with this hash, brought up to this spec (what does not make a container may differ), or a new
   * one with the next number. Keeps the last `revisionsKeptMax`, and those that the App's status names.
   */
  ensure(input: {
    app: string;
    generation: number;
    specHash: string;
    spec: SpecOf["App"];
    image: string | null;
    imageId: string | null;
  }): Revision;
  mark(app: string, number: number, state: Revision["state"], message: string | null): void;
  /** Newest first. */
  list(app: string): Revision[];
  get(app: string, number: number): Revision | undefined;
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
  /** Newest first. */
  list(filter: { kind?: Kind; name?: string; limit: number; before?: number }): AuditEntry[];
}

export interface SecretValues {
  /** The plaintext of each key; undefined where there is no such Secret. Only reconcilers call this, and what checks signatures. */
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
  /** The token is returned here only; the store keeps its sha256. Throws ConflictError `name_taken`. */
  create(input: {
    name: string;
    scope: TokenScope;
    kind: TokenRecord["kind"];
    lifetimeMs: number | null;
  }): { token: string; record: TokenRecord };
  /** Undefined for a token that is unknown, revoked or expired. */
  find(token: string): TokenRecord | undefined;
  list(): TokenRecord[];
  /** False where there was none. */
  revoke(id: string): boolean;
}

export interface Settings {
  get(key: string): string | undefined;
  set(key: string, value: string): void;
}

/** Loopback ports that apps are published on: stable for as long as the app exists. */
export interface PortLeases {
  /** The lease of this replica, made on the first call. `avoid` lists ports found taken. Throws BerthError `port_taken` when none is left. */
  lease(app: string, replica: number, containerPort: number, avoid?: readonly number[]): number;
  /** The lease of this replica, where there is one; makes none. */
  get(app: string, replica: number, containerPort: number): number | undefined;
  release(app: string): void;
}

/** Images that Berth pulled or built, and so may remove. */
export interface OwnedImages {
  add(reference: string, app: string): void;
  list(app: string): string[];
  remove(reference: string, app: string): void;
  /** True where another app has the same reference too. */
  isUsedByOthers(reference: string, app: string): boolean;
}

/** One attempt to make an image of a source. */
export interface BuildRecord {
  /** Counts up over all apps. */
  readonly id: number;
  readonly app: string;
  readonly generation: number;
  /** For people: the repository's URL, "archive" or "folder". Holds no credentials. */
  readonly source: string;
  /** Commit, or sha256 of the archive or of the folder's content. */
  readonly revision: string;
  readonly image: string;
  readonly state: BuildRecordState;
  /** Why it failed, in one or a few lines; null otherwise. */
  readonly message: string | null;
  readonly imageBytes: number | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

/** queued -> running -> succeeded, failed or cancelled; abandoned: Berth ended in the middle. */
export type BuildRecordState =
  | "queued"
  | "running"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "abandoned";

export interface BuildRecords {
  create(
    input: Pick<BuildRecord, "app" | "generation" | "source" | "revision" | "image">,
  ): BuildRecord;
  /** Sets state and, where they follow from it, the times. Does nothing for a build that is gone. */
  mark(
    id: number,
    state: BuildRecordState,
    details?: { readonly message?: string; readonly imageBytes?: number },
  ): void;
  get(id: number): BuildRecord | undefined;
  /** Newest first; of all apps without `app`. */
  list(filter: {
    readonly app?: string;
    readonly states?: readonly BuildRecordState[];
    readonly limit: number;
  }): BuildRecord[];
  /** The newest build that made this image; undefined where none did. */
  findByImage(image: string): BuildRecord | undefined;
  /** Takes records away; returns their ids, whose logs go too. */
  removeOldest(filter: { readonly app: string; readonly keep: number }): number[];
}

/** Which commit, archive or folder content an App's source stands for: resolved once, then kept. */
export interface SourcePins {
  get(app: string): SourcePin | undefined;
  set(app: string, pin: SourcePin): void;
  remove(app: string): void;
}

export interface SourcePin {
  /** Digest of the source's spec and of the last request to look anew; another one makes the pin stale. */
  readonly key: string;
  readonly revision: string;
  readonly resolvedAtMs: number;
}
