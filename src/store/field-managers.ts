import { deepEqual } from "../base/canonical-json.ts";
import type { FieldOwners, ManagerEntry } from "../resources/resource.ts";
import { getAncestors, isEmptyMap, isRootPointer, type Leaves } from "./field-leaves.ts";

/**
 * The state of server-side apply for the leaves of one resource (field-leaves.ts). All functions of this file are pure.
 *
 * Each leaf has at most one owner. Files have priority: other managers cannot write a field of a file without force,
 * but a file takes over fields from `api` and `cli` without force. Between `api` and `cli`, the last writer is the
 * owner.
 */
export interface Ownership {
  readonly leaves: Leaves;
  readonly owners: FieldOwners;
  readonly managers: Readonly<Record<string, ManagerEntry>>;
}

export interface FieldWrite {
  readonly manager: string;
  readonly mode: "replace" | "merge";
  readonly set: Leaves;
  /** JSON Pointers to the fields that a merge removes, together with all fields below them. */
  readonly remove: readonly string[];
  readonly contentHash: string;
  readonly declares: boolean;
  readonly force: boolean;
  readonly takeOverFrom: readonly string[];
  readonly time: string;
}

export interface FieldConflict {
  readonly path: string;
  readonly manager: string;
}

export interface FieldOutcome extends Ownership {
  /**
   * Fields of the document that this write does not change, because another manager has taken them over from the file
   * with force.
   */
  readonly yielded: readonly string[];
  /**
   * Fields that a file owns and that this write may not change. If there are any, the caller must refuse the write and
   * ignore the rest of this outcome.
   */
  readonly conflicts: readonly FieldConflict[];
}

export const isFileManager = (manager: string): boolean => manager.startsWith("file:");

/** Returns `the file apps/web.yaml` for `file:apps/web.yaml`. */
export function describeManager(manager: string): string {
  return isFileManager(manager) ? `the file ${manager.slice("file:".length)}` : manager;
}

/** Computes the result of a write. Never changes its arguments. */
export function applyFields(before: Ownership, write: FieldWrite): FieldOutcome {
  const draft = new FieldDraft(renameManagers(before, write), write);
  const skipped = draft.getSkippedFields();
  if (write.mode === "replace") draft.dropOmittedFields();
  for (const pointer of write.remove) draft.remove(pointer);
  for (const [pointer, value] of write.set) {
    if (!skipped.has(pointer)) draft.set(pointer, value);
  }
  draft.keepEmptiedMaps();
  return draft.toOutcome(skipped);
}

/** Removes a manager. Its fields keep their values, but have no owner any more. */
export function releaseFields(before: Ownership, manager: string): Ownership {
  return {
    leaves: before.leaves,
    owners: Object.fromEntries(
      Object.entries(before.owners).filter(([, owner]) => owner !== manager),
    ),
    managers: Object.fromEntries(
      Object.entries(before.managers).filter(([name]) => name !== manager),
    ),
  };
}

/**
 * Renames the manager of a renamed file. The file keeps its fields, its list of fields that were taken over with
 * force, and its hash.
 */
function renameManagers(before: Ownership, write: FieldWrite): Ownership {
  const gone = write.takeOverFrom.filter(
    (name) => name !== write.manager && before.managers[name] !== undefined,
  );
  if (gone.length === 0) return before;
  const managers = { ...before.managers };
  const own = managers[write.manager];
  const first = gone.map((name) => before.managers[name]).find((entry) => entry !== undefined);
  for (const name of gone) delete managers[name];
  if (!own && first) managers[write.manager] = first;
  return {
    leaves: before.leaves,
    owners: Object.fromEntries(
      Object.entries(before.owners).map(([pointer, owner]) => [
        pointer,
        gone.includes(owner) ? write.manager : owner,
      ]),
    ),
    managers,
  };
}

class FieldDraft {
  readonly #write: FieldWrite;
  readonly #entry: ManagerEntry | undefined;
  readonly #managers: Readonly<Record<string, ManagerEntry>>;
  readonly #leaves: Map<string, unknown>;
  readonly #owners: Map<string, string>;
  /** The number of leaves of the resource below each pointer that is not a leaf itself. */
  readonly #leafCounts = new Map<string, number>();
  readonly #conflicts: FieldConflict[] = [];
  readonly #takenOver = new Map<string, Set<string>>();
  readonly #emptied = new Set<string>();

  constructor(before: Ownership, write: FieldWrite) {
    this.#write = write;
    this.#entry = before.managers[write.manager];
    this.#managers = before.managers;
    this.#leaves = new Map(before.leaves);
    this.#owners = new Map(Object.entries(before.owners));
    for (const pointer of this.#leaves.keys()) this.#count(pointer, 1);
  }

  /** Returns the fields that a file lost to a write with force. The file gets them back when its content changes. */
  getSkippedFields(): ReadonlySet<string> {
    const { mode, force, contentHash } = this.#write;
    if (mode !== "replace" || force || this.#entry?.contentHash !== contentHash) return new Set();
    return new Set(this.#entry.yielded);
  }

  dropOmittedFields(): void {
    for (const [pointer, owner] of this.#owners) {
      if (owner === this.#write.manager && !this.#write.set.has(pointer)) this.#drop(pointer);
    }
  }

  remove(pointer: string): void {
    const found = [...(this.#leaves.has(pointer) ? [pointer] : []), ...this.#descendants(pointer)];
    for (const leaf of found) {
      if (this.#canTake(leaf)) this.#drop(leaf);
    }
    const parent = pointer.slice(0, pointer.lastIndexOf("/"));
    if (found.length > 0 && !isRootPointer(parent)) this.#emptied.add(parent);
  }

  set(pointer: string, value: unknown): void {
    const empty = isEmptyMap(value);
    const descendants = this.#descendants(pointer);
    // If other managers own fields of the map, setting the map to {} changes neither these fields nor their owners.
    if (empty && descendants.length > 0) return;
    const inTheWay = [
      ...getAncestors(pointer).filter((ancestor) => this.#leaves.has(ancestor)),
      ...descendants,
    ];
    const owner = this.#owners.get(pointer);
    const same = this.#leaves.has(pointer) && deepEqual(this.#leaves.get(pointer), value);
    if (same && owner !== undefined && owner !== this.#write.manager && isFileManager(owner)) {
      // A write of an equal value causes no conflict, and the file stays the owner of the field.
      if (!isFileManager(this.#write.manager) || !this.#write.force) return;
    }
    let allowed = same || this.#canTake(pointer);
    for (const other of inTheWay) {
      // An empty map counts as a leaf. This leaf is removed when the map gets its first field.
      const makesWay = isEmptyMap(this.#leaves.get(other)) || this.#canTake(other);
      allowed = makesWay && allowed;
    }
    if (!allowed) return;
    for (const other of inTheWay) this.#drop(other);
    if (!this.#leaves.has(pointer)) this.#count(pointer, 1);
    this.#leaves.set(pointer, value);
    this.#owners.set(pointer, this.#write.manager);
  }

  /** If the last field of a map was removed, keeps the map as an empty map, as a JSON merge patch does. */
  keepEmptiedMaps(): void {
    for (const pointer of this.#emptied) {
      const covered = getAncestors(pointer).some((ancestor) => this.#leaves.has(ancestor));
      if (covered || this.#leaves.has(pointer) || this.#leafCounts.has(pointer)) continue;
      this.#leaves.set(pointer, {});
      this.#owners.set(pointer, this.#write.manager);
      this.#count(pointer, 1);
    }
  }

  toOutcome(skipped: ReadonlySet<string>): FieldOutcome {
    const owners = Object.fromEntries(this.#owners);
    const owning = new Set(this.#owners.values());
    const managers: Record<string, ManagerEntry> = {};
    for (const [name, entry] of Object.entries({
      ...this.#managers,
      [this.#write.manager]: this.#nextEntry(skipped),
    })) {
      const taken = this.#takenOver.get(name);
      const next = taken
        ? { ...entry, yielded: [...new Set([...entry.yielded, ...taken])].toSorted() }
        : entry;
      // A manager that owns no fields and declares nothing is removed.
      if (next.declares || next.yielded.length > 0 || owning.has(name)) managers[name] = next;
    }
    return {
      leaves: this.#leaves,
      owners,
      managers,
      yielded: [...skipped].filter((pointer) => this.#write.set.has(pointer)).toSorted(),
      conflicts: this.#conflicts.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    };
  }

  #nextEntry(skipped: ReadonlySet<string>): ManagerEntry {
    const { mode, contentHash, declares, time } = this.#write;
    const next: ManagerEntry = {
      // A patch keeps the hash of the manager's last document, so that applying this document again does not count as a
      // change.
      contentHash: mode === "merge" ? (this.#entry?.contentHash ?? contentHash) : contentHash,
      time,
      declares: declares || (this.#entry?.declares ?? false),
      yielded: mode === "merge" ? (this.#entry?.yielded ?? []) : [...skipped].toSorted(),
    };
    const unchanged =
      this.#entry && deepEqual({ ...next, time: null }, { ...this.#entry, time: null });
    return unchanged && this.#entry ? this.#entry : next;
  }

  /**
   * Returns true if the write may overwrite or remove this leaf. Records a conflict, or that the leaf is taken over.
   */
  #canTake(pointer: string): boolean {
    const owner = this.#owners.get(pointer);
    if (owner === undefined || owner === this.#write.manager || !isFileManager(owner)) return true;
    if (!this.#write.force) {
      if (!this.#conflicts.some((conflict) => conflict.path === pointer)) {
        this.#conflicts.push({ path: pointer, manager: owner });
      }
      return false;
    }
    const taken = this.#takenOver.get(owner) ?? new Set();
    this.#takenOver.set(owner, taken.add(pointer));
    return true;
  }

  #descendants(pointer: string): string[] {
    if (!this.#leafCounts.has(pointer)) return [];
    return [...this.#leaves.keys()].filter((leaf) => leaf.startsWith(`${pointer}/`));
  }

  #drop(pointer: string): void {
    if (this.#leaves.delete(pointer)) this.#count(pointer, -1);
    this.#owners.delete(pointer);
  }

  #count(pointer: string, difference: number): void {
    for (const ancestor of getAncestors(pointer)) {
      const count = (this.#leafCounts.get(ancestor) ?? 0) + difference;
      if (count === 0) this.#leafCounts.delete(ancestor);
      else this.#leafCounts.set(ancestor, count);
    }
  }
}
