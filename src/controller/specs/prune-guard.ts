import type { Kind } from "../../resources/kinds.ts";

/**
 * Which resources that files declared are to be deleted, as a pure function of what the store says
 * was declared and what the folder says now.
 *
 * A resource goes through these states, none of which has to be remembered across a restart:
 *
 *   declared   its file is there and lists it, or cannot be read or understood (then it changes nothing)
 *   missing    its file is gone, or is there without it; since when is kept in memory only
 *   confirmed  still missing in a scan at least CONFIRM_AFTER_MS later: a save is never that slow
 *   pruned     deleted; or held, where a guard says that a person should look first
 *
 * What is held is worked out anew by each scan: it is what the store has declared by files that do
 * not declare it any more. A restart only starts the second phase again.
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
  // Counted before they are confirmed, so that a slow removal of many does not slip through in parts.
  const open = unwanted.filter((declared) => !input.approved.has(formatDeclaredId(declared)));
  const isMass =
    open.length >= MASS_PRUNE_MIN && open.length > input.declared.length * MASS_PRUNE_SHARE;
  const holdReason = (declared: DeclaredResource): string | undefined => {
    if (input.approved.has(formatDeclaredId(declared))) return undefined;
    const mention = findBrokenMention(input.files, declared);
    if (mention !== undefined) return `${mention} is not valid and mentions it`;
    if (input.isEmpty) return "the folder is empty";
    if (input.isUnmounted(declared.file)) return "another file system is where its file was";
    if (!isMass) return undefined;
    return `${open.length} of ${input.declared.length} resources would go at once`;
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

/** A file that is written in place, or unlinked and made anew, is back well within this. */
export const CONFIRM_AFTER_MS = 1000;
/** Fewer than this many deletions at once are taken for meant. */
const MASS_PRUNE_MIN = 3;
const MASS_PRUNE_SHARE = 0.3;

export interface ResourceKey {
  readonly kind: Kind;
  readonly name: string;
}

/** A resource, and the file (below the folder) that the store has as declaring it. */
export interface DeclaredResource extends ResourceKey {
  readonly file: string;
}

export interface HeldPrune extends DeclaredResource {
  readonly reason: string;
}

/** What is known of a file that stands in the folder. */
export interface FileView {
  /** What its text lists; undefined where it cannot be read or understood. */
  readonly keys: readonly ResourceKey[] | undefined;
  /** Whether the text of a file that is not understood has this word in it. */
  readonly mentions: (word: string) => boolean;
}

export interface PruneInput {
  readonly declared: readonly DeclaredResource[];
  readonly files: ReadonlyMap<string, FileView>;
  /** Whether this file stands in a part of the folder whose content cannot be told. */
  readonly isUnknown: (file: string) => boolean;
  /** Whether the file system that this file was on has made way for another one. */
  readonly isUnmounted: (file: string) => boolean;
  /** No spec file at all: what an unmounted folder looks like. */
  readonly isEmpty: boolean;
  /** By idOf: when each missing resource was first seen missing, in epoch milliseconds. */
  readonly missingSince: ReadonlyMap<string, number>;
  /** By idOf: what a person has let go. */
  readonly approved: ReadonlySet<string>;
  readonly now: number;
}

export interface PruneDecision {
  readonly prune: readonly DeclaredResource[];
  readonly held: readonly HeldPrune[];
  readonly missingSince: ReadonlyMap<string, number>;
  /** When to look again, in epoch milliseconds; null where nothing waits for time alone. */
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

/** Listed by some file, if one that could not be applied yet: deleting it now would be in its way. */
function collectListedKeys(files: ReadonlyMap<string, FileView>): ReadonlySet<string> {
  const wanted = new Set<string>();
  for (const { keys } of files.values())
    for (const key of keys ?? []) wanted.add(formatResourceKey(key));
  return wanted;
}

/** A file moved and broken in one go: the text cannot be understood, but it names the resource. */
function findBrokenMention(
  files: ReadonlyMap<string, FileView>,
  declared: DeclaredResource,
): string | undefined {
  for (const [path, file] of files) {
    if (file.keys === undefined && file.mentions(declared.name)) return path;
  }
  return undefined;
}
