import assert from "node:assert/strict";
import { BerthError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import { API_VERSION, type Kind, kinds, type SpecOf } from "../resources/kinds.ts";
import {
  type FieldOwners,
  isKind,
  type ManagerEntry,
  type Resource,
  type StatusOf,
} from "../resources/resource.ts";
import type { FieldAuthors } from "./field-authors.ts";

/** A resource as its table row stores it. The `spec.data` of a Secret contains fingerprints instead of the values. */
export interface StoredResource {
  readonly kind: Kind;
  readonly name: string;
  readonly uid: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly generation: number;
  readonly resourceVersion: number;
  readonly createdAt: string;
  readonly deletionTimestamp: string | null;
  readonly finalizers: readonly string[];
  readonly owners: FieldOwners;
  readonly authors: FieldAuthors;
  readonly managers: Readonly<Record<string, ManagerEntry>>;
  readonly actor: string;
  readonly status: unknown;
}

/**
 * The table of resources, with a cache of all rows that were read, parsed and frozen. The cache makes lists cheap. It
 * cannot become outdated, because a lock excludes other writers.
 */
export class ResourceTable {
  readonly #select;
  readonly #names;
  readonly #upsert;
  readonly #remove;
  readonly #cachedRows = new Map<string, StoredResource | undefined>();
  readonly #resources = new WeakMap<StoredResource, Resource>();
  readonly #nameLists = new Map<Kind, readonly string[]>();
  /** The rows that were written since the last commit, by their cache key. */
  readonly #uncommitted = new Map<string, Kind>();

  constructor(db: SqliteDatabase) {
    this.#select = db.prepare<[string, string], ResourceRow>(
      "SELECT * FROM resources WHERE kind = ? AND name = ?",
    );
    this.#names = db
      .prepare<[string], string>("SELECT name FROM resources WHERE kind = ? ORDER BY name")
      .pluck();
    this.#upsert = db.prepare<[ResourceRow]>(`
      INSERT INTO resources (kind, name, uid, spec, labels, annotations, generation, resource_version,
        created_at, deletion_timestamp, finalizers, owners, authors, managers, actor, status)
      VALUES (@kind, @name, @uid, @spec, @labels, @annotations, @generation, @resource_version,
        @created_at, @deletion_timestamp, @finalizers, @owners, @authors, @managers, @actor, @status)
      ON CONFLICT (kind, name) DO UPDATE SET spec = excluded.spec, labels = excluded.labels,
        annotations = excluded.annotations, generation = excluded.generation,
        resource_version = excluded.resource_version,
        deletion_timestamp = excluded.deletion_timestamp, finalizers = excluded.finalizers,
        owners = excluded.owners, authors = excluded.authors, managers = excluded.managers, actor = excluded.actor,
        status = excluded.status`);
    this.#remove = db.prepare<[string, string]>(
      "DELETE FROM resources WHERE kind = ? AND name = ?",
    );
  }

  read(kind: Kind, name: string): StoredResource | undefined {
    const key = `${kind}/${name}`;
    const known = this.#cachedRows.get(key);
    if (known) return known;
    const row = this.#select.get(kind, name);
    if (!row) return undefined;
    const stored = deepFreeze(parseRow(row));
    this.#cachedRows.set(key, stored);
    return stored;
  }

  /** Returns the resources sorted by name. */
  readAll(kind: Kind): StoredResource[] {
    let names = this.#nameLists.get(kind);
    if (!names) {
      names = this.#names.all(kind);
      this.#nameLists.set(kind, names);
    }
    return names.flatMap((name) => this.read(kind, name) ?? []);
  }

  readAllKinds(): StoredResource[] {
    return kinds.flatMap((kind) => this.readAll(kind));
  }

  write(stored: StoredResource): void {
    this.#upsert.run(toRow(stored));
    const key = `${stored.kind}/${stored.name}`;
    if (!this.#cachedRows.has(key)) this.#nameLists.delete(stored.kind);
    this.#cachedRows.delete(key);
    this.#uncommitted.set(key, stored.kind);
  }

  remove(kind: Kind, name: string): void {
    this.#remove.run(kind, name);
    const key = `${kind}/${name}`;
    this.#cachedRows.delete(key);
    this.#nameLists.delete(kind);
    this.#uncommitted.set(key, kind);
  }

  onCommit(): void {
    this.#uncommitted.clear();
  }

  /**
   * Removes from the cache the rows that the transaction wrote, because they may have been read after that. The rows
   * stay marked, because a preview undoes only a part of the transaction.
   */
  onRollback(): void {
    for (const [key, kind] of this.#uncommitted) {
      this.#cachedRows.delete(key);
      this.#nameLists.delete(kind);
    }
  }

  /** Returns the frozen resource of a stored row, which is cached. */
  getResource<K extends Kind>(stored: StoredResource, kind: K): Resource<K> {
    let shown = this.#resources.get(stored);
    if (!shown) {
      shown = deepFreeze(toResource(stored, stored.kind));
      this.#resources.set(stored, shown);
    }
    assert(isKind(shown, kind));
    return shown;
  }
}

/** Returns the public form of a resource, with "" for the values of secrets. */
export function toResource<K extends Kind>(stored: StoredResource, kind: K): Resource<K> {
  const spec = kind === "Secret" ? hideSecretValues(stored.spec) : stored.spec;
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: {
      name: stored.name,
      uid: stored.uid,
      labels: stored.labels,
      annotations: stored.annotations,
      generation: stored.generation,
      resourceVersion: stored.resourceVersion,
      creationTimestamp: stored.createdAt,
      deletionTimestamp: stored.deletionTimestamp,
      finalizers: stored.finalizers,
      owners: stored.owners,
      managers: stored.managers,
    },
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it was validated before it was stored
    spec: spec as SpecOf[K],
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only setStatus of this kind writes it
    status: stored.status as StatusOf[K] | null,
  };
}

export function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value;
}

function hideSecretValues(spec: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const data = spec["data"];
  if (data === null || typeof data !== "object") return { ...spec };
  return { ...spec, data: Object.fromEntries(Object.keys(data).map((key) => [key, ""])) };
}

interface ResourceRow {
  kind: Kind;
  name: string;
  uid: string;
  spec: string;
  labels: string;
  annotations: string;
  generation: number;
  resource_version: number;
  created_at: string;
  deletion_timestamp: string | null;
  finalizers: string;
  owners: string;
  authors: string;
  managers: string;
  actor: string;
  status: string | null;
}

function toRow(stored: StoredResource): ResourceRow {
  return {
    kind: stored.kind,
    name: stored.name,
    uid: stored.uid,
    spec: JSON.stringify(stored.spec),
    labels: JSON.stringify(stored.labels),
    annotations: JSON.stringify(stored.annotations),
    generation: stored.generation,
    resource_version: stored.resourceVersion,
    created_at: stored.createdAt,
    deletion_timestamp: stored.deletionTimestamp,
    finalizers: JSON.stringify(stored.finalizers),
    owners: JSON.stringify(stored.owners),
    authors: JSON.stringify(stored.authors),
    managers: JSON.stringify(stored.managers),
    actor: stored.actor,
    status: stored.status === null ? null : JSON.stringify(stored.status),
  };
}

function parseRow(row: ResourceRow): StoredResource {
  try {
    return {
      kind: row.kind,
      name: row.name,
      uid: row.uid,
      spec: JSON.parse(row.spec),
      labels: JSON.parse(row.labels),
      annotations: JSON.parse(row.annotations),
      generation: row.generation,
      resourceVersion: row.resource_version,
      createdAt: row.created_at,
      deletionTimestamp: row.deletion_timestamp,
      finalizers: JSON.parse(row.finalizers),
      owners: JSON.parse(row.owners),
      authors: JSON.parse(row.authors),
      managers: JSON.parse(row.managers),
      actor: row.actor,
      status: row.status === null ? null : JSON.parse(row.status),
    };
  } catch (cause) {
    throw new BerthError("store_corrupt", `the record of ${row.kind} ${row.name} cannot be read`, {
      hint: "restore the last good backup with: berth restore FILE",
      cause,
    });
  }
}
