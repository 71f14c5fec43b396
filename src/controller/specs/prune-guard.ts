import type { Kind } from "../../resources/kinds.ts";

/**
 * Decides which of the resources that files have declared are deleted. Pure: the result depends only on the store's
 * declarations and the present content of the folder.
 *
 * The states of a resource, none of which has to be kept across a restart:
 * - declared: its file lists it, or exists but cannot be read or parsed (a broken file changes nothing)
 * - missing: its file is gone, or no longer lists it; the time is kept in memory only
 * - confirmed: still missing in a scan at least CONFIRM_AFTER_MS later, which is longer than any save takes
 * - pruned: deleted, or held until the user confirms the deletion, if one of the rules below requires that
 *
 * Each scan computes the held resources again: those that the store says are declared by a file, but that no file lists
 * any more. After a restart, a missing resource has to be confirmed again.
 */
export function decidePrune(input: PruneInput): PruneDecision {
  const missing = input.declared.filter(({ kind, name, file }) =>
    isMissing(input.files.get(file), input.isUnknown(file), { kind, name }),
  );
  const wanted = collectListedKeys(input.files);
  const since = new Map<string, number>();
  const prune: DeclaredResource[] = [];
  const held: HeldPrune[] = [];
  let recheckAt: number | null = null;

  const unwanted = missing.filter((declared) => !wanted.has(formatResourceKey(declared)));
  // Missing resources count before they are confirmed. Otherwise a slow removal of many files would look like several
  // small removals, which are not held.
  const open = unwanted.filter((declared) => !input.approved.has(formatDeclaredId(declared)));
  const isMass =
    open.length >= MASS_PRUNE_MIN && open.length > input.declared.length * MASS_PRUNE_SHARE;
  const holdReason = (declared: DeclaredResource): string | undefined => {
    if (input.approved.has(formatDeclaredId(declared))) return undefined;
    const mention = findBrokenMention(input.files, declared);
    if (mention !== undefined) return `${mention} is invalid and mentions the resource`;
    if (input.isEmpty) return "the folder is empty";
    if (input.isUnmounted(declared.file))
      return "another file system now hides the file of the resource";
    if (!isMass) return undefined;
    return `${open.length} of ${input.declared.length} resources would be deleted at once`;
  };

  for (const declared of missing) {
    const first = input.missingSince.get(formatDeclaredId(declared)) ?? input.now;
    since.set(formatDeclaredId(declared), first);
    if (input.now - first < CONFIRM_AFTER_MS) {
      recheckAt = Math.min(recheckAt ?? Number.POSITIVE_INFINITY, first + CONFIRM_AFTER_MS);
    } else if (!wanted.has(formatResourceKey(declared))) {
      const reason = holdReason(declared);
      if (reason === undefined) prune.push(declared);
      else held.push({ ...declared, reason });
    }
  }
  return { prune, held, missingSince: since, recheckAt };
}

/**
 * The time after which a missing resource counts as removed. A file that is rewritten in place, or deleted and created
 * again, is complete well within this time.
 */
export const CONFIRM_AFTER_MS = 1000;
/** If fewer resources than this are deleted at once, the deletion is assumed to be intended. */
const MASS_PRUNE_MIN = 3;
const MASS_PRUNE_SHARE = 0.3;

export interface ResourceKey {
  readonly kind: Kind;
  readonly name: string;
}

/** A resource, and the path (below the watched folder) of the file that declares it according to the store. */
export interface DeclaredResource extends ResourceKey {
  readonly file: string;
}

export interface HeldPrune extends DeclaredResource {
  readonly reason: string;
}

/** The content of an existing spec file in the watched folder, as far as the prune decision needs it. */
export interface FileView {
  /** The resources in the file's text; undefined if the text cannot be read or parsed. */
  readonly keys: readonly ResourceKey[] | undefined;
  /** Returns true if the text of a file that cannot be parsed contains this word. */
  readonly mentions: (word: string) => boolean;
}

export interface PruneInput {
  readonly declared: readonly DeclaredResource[];
  readonly files: ReadonlyMap<string, FileView>;
  /** Returns true if this file is in a part of the folder that cannot be read. */
  readonly isUnknown: (file: string) => boolean;
  /**
   * Returns true if the file's folder is now on another file system than at the last scan that found the file, as after
   * an unmount.
   */
  readonly isUnmounted: (file: string) => boolean;
  /** True if there is no spec file at all, as in an unmounted folder. */
  readonly isEmpty: boolean;
  /** The time, in epoch milliseconds, when each missing resource (by its id) was first found missing. */
  readonly missingSince: ReadonlyMap<string, number>;
  /** The ids of deletions that the user has confirmed. */
  readonly approved: ReadonlySet<string>;
  readonly now: number;
}

export interface PruneDecision {
  readonly prune: readonly DeclaredResource[];
  readonly held: readonly HeldPrune[];
  readonly missingSince: ReadonlyMap<string, number>;
  /** The time, in epoch milliseconds, when the next scan is due; null if no deletion waits. */
  readonly recheckAt: number | null;
}

export function formatResourceKey(key: ResourceKey): string {
  return `${key.kind}/${key.name}`;
}

export function formatDeclaredId(declared: DeclaredResource): string {
  return `${formatResourceKey(declared)} ${declared.file}`;
}

export function listsResource(file: FileView | undefined, key: ResourceKey): boolean {
  return file?.keys?.some(({ kind, name }) => kind === key.kind && name === key.name) ?? false;
}

function isMissing(file: FileView | undefined, isUnknown: boolean, key: ResourceKey): boolean {
  if (file) return file.keys !== undefined && !listsResource(file, key);
  return !isUnknown;
}

/**
 * Collects the keys of all resources that the files list. Files that could not be applied yet are included, because a
 * deletion would interfere with their next attempt.
 */
function collectListedKeys(files: ReadonlyMap<string, FileView>): ReadonlySet<string> {
  const wanted = new Set<string>();
  for (const { keys } of files.values())
    for (const key of keys ?? []) wanted.add(formatResourceKey(key));
  return wanted;
}

/**
 * Returns a file that cannot be parsed and that mentions the resource, because the resource may have been moved into
 * it.
 */
function findBrokenMention(
  files: ReadonlyMap<string, FileView>,
  declared: DeclaredResource,
): string | undefined {
  for (const [path, file] of files) {
    if (file.keys === undefined && file.mentions(declared.name)) return path;
  }
  return undefined;
}
