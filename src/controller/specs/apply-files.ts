import { setImmediate as nextTurn } from "node:timers/promises";
import { messageOf } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import { applyFile, type FileOutcome } from "./apply-file.ts";
import { type Declared, type FileView, keyOf, lists, type ResourceKey } from "./prune-guard.ts";
import type { SpecEvents } from "./spec-events.ts";
import { type LoadedFile, managerOf } from "./spec-file.ts";

/** Committed together; then others get a turn, since the store works synchronously. */
const FILES_IN_A_BATCH = 20;

export interface ApplyFilesParts {
  readonly store: Store;
  readonly events: SpecEvents;
  /** What the store has declared by files now. */
  readonly declared: () => readonly Declared[];
  /** Every file that is known, as it was before; what is in `loaded` counts instead. */
  readonly known: ReadonlyMap<string, FileView & { readonly hash: string }>;
  /** Whether a file that is not known may be there all the same. */
  readonly isUnknown: (file: string) => boolean;
  /** Whether a file has been without this resource for long enough to believe it. */
  readonly isConfirmed: (declared: Declared) => boolean;
  readonly isWithdrawn: (key: ResourceKey, file: LoadedFile) => boolean;
  readonly onOutcome: (file: LoadedFile, outcome: FileOutcome) => void;
}

/** Applies files in order, with what moved between them. Rejects only when `signal` aborts. */
export async function applyFiles(
  loaded: ReadonlyMap<string, LoadedFile>,
  parts: ApplyFilesParts,
  signal: AbortSignal,
): Promise<void> {
  const files = [...loaded.values()];
  for (let start = 0; start < files.length; start += FILES_IN_A_BATCH) {
    if (start > 0) await nextTurn(undefined, { signal });
    const batch = files.slice(start, start + FILES_IN_A_BATCH);
    for (const [index, outcome] of applyBatch(batch, loaded, parts).entries()) {
      const file = batch[index];
      if (file) parts.onOutcome(file, outcome);
    }
  }
}

function applyBatch(
  batch: readonly LoadedFile[],
  loaded: ReadonlyMap<string, LoadedFile>,
  parts: ApplyFilesParts,
): FileOutcome[] {
  try {
    const declarers = new Declarers(parts.declared());
    return parts.store.batch(() => batch.map((file) => applyOne(file, loaded, declarers, parts)));
  } catch {
    // The store failed at one of them, and all were taken back: each for itself, to find out which.
    const declarers = new Declarers(parts.declared());
    return batch.map((file) => {
      try {
        return parts.store.batch(() => applyOne(file, loaded, declarers, parts));
      } catch (error) {
        const message = `could not be stored: ${messageOf(error)}`;
        return { state: "invalid", errors: [{ line: 1, column: 1, message }] };
      }
    });
  }
}

function applyOne(
  file: LoadedFile,
  loaded: ReadonlyMap<string, LoadedFile>,
  declarers: Declarers,
  parts: ApplyFilesParts,
): FileOutcome {
  if (file.keys === undefined) return { state: "invalid", errors: file.errors };
  const isFresh = parts.known.get(file.path)?.hash !== file.hash;
  const takeOverFrom = (key: ResourceKey): string[] =>
    declarers.of(key).filter((other) => {
      if (other === file.path) return false;
      const view = loaded.get(other) ?? parts.known.get(other);
      const isGone = view ? view.keys !== undefined && !lists(view, key) : !parts.isUnknown(other);
      // New or changed: the resource has moved here. A file that was here all along waits until the
      // other one is gone for good, so that a save of that one does not make them change places.
      return isGone && (isFresh || parts.isConfirmed({ ...key, file: other }));
    });
  return applyFile(file, {
    store: parts.store,
    takeOverFrom: (key) => takeOverFrom(key).map(managerOf),
    isWithdrawn: (key) => parts.isWithdrawn(key, file),
    onApplied: (key, result) => {
      declarers.move(key, takeOverFrom(key), file.path);
      parts.events.applied(key, file.path, result);
    },
  });
}

/** Which files the store has as declaring each resource, kept in step with what is applied. */
class Declarers {
  readonly #files = new Map<string, Set<string>>();

  constructor(declared: readonly Declared[]) {
    for (const { file, ...key } of declared) this.move(key, [], file);
  }

  of(key: ResourceKey): string[] {
    return [...(this.#files.get(keyOf(key)) ?? [])];
  }

  move(key: ResourceKey, from: readonly string[], to: string): void {
    const files = this.#files.get(keyOf(key)) ?? new Set();
    for (const file of from) files.delete(file);
    this.#files.set(keyOf(key), files.add(to));
  }
}
