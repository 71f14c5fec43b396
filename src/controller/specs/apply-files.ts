import { setImmediate as nextTurn } from "node:timers/promises";
import { getErrorMessage } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import { applyFile, type FileOutcome } from "./apply-file.ts";
import {
  type DeclaredResource,
  type FileView,
  formatResourceKey,
  listsResource,
  type ResourceKey,
} from "./prune-guard.ts";
import type { SpecEvents } from "./spec-events.ts";
import { formatFileManager, type LoadedFile } from "./spec-file.ts";

/** Committed together; then others get a turn, since the store works synchronously. */
const FILES_IN_A_BATCH = 20;

export interface ApplyFilesOptions {
  readonly store: Store;
  readonly events: SpecEvents;
  /** What the store has declared by files now. */
  readonly declared: () => readonly DeclaredResource[];
  /** Every file that is known, as it was before; what is in `loaded` counts instead. */
  readonly known: ReadonlyMap<string, FileView & { readonly hash: string }>;
  /** Whether a file that is not known may be there all the same. */
  readonly isUnknown: (file: string) => boolean;
  /** Whether a file has been without this resource for long enough to believe it. */
  readonly isConfirmedMissing: (declared: DeclaredResource) => boolean;
  readonly isForceDeleted: (key: ResourceKey, file: LoadedFile) => boolean;
  readonly onOutcome: (file: LoadedFile, outcome: FileOutcome) => void;
}

/** Applies files in order, with what moved between them. Rejects only when `signal` aborts. */
export async function applyFiles(
  loaded: ReadonlyMap<string, LoadedFile>,
  options: ApplyFilesOptions,
  signal: AbortSignal,
): Promise<void> {
  const files = [...loaded.values()];
  for (let start = 0; start < files.length; start += FILES_IN_A_BATCH) {
    if (start > 0) await nextTurn(undefined, { signal });
    const batch = files.slice(start, start + FILES_IN_A_BATCH);
    for (const [index, outcome] of applyBatch(batch, loaded, options).entries()) {
      const file = batch[index];
      if (file) options.onOutcome(file, outcome);
    }
  }
}

function applyBatch(
  batch: readonly LoadedFile[],
  loaded: ReadonlyMap<string, LoadedFile>,
  options: ApplyFilesOptions,
): FileOutcome[] {
  try {
    const declarers = new Declarers(options.declared());
    return options.store.batch(() =>
      batch.map((file) => applyOne(file, loaded, declarers, options)),
    );
  } catch {
    // The store failed at one of them, and all were taken back: each for itself, to find out which.
    const declarers = new Declarers(options.declared());
    return batch.map((file) => {
      try {
        return options.store.batch(() => applyOne(file, loaded, declarers, options));
      } catch (error) {
        const message = `could not be stored: ${getErrorMessage(error)}`;
        return { state: "invalid", errors: [{ line: 1, column: 1, message }] };
      }
    });
  }
}

function applyOne(
  file: LoadedFile,
  loaded: ReadonlyMap<string, LoadedFile>,
  declarers: Declarers,
  options: ApplyFilesOptions,
): FileOutcome {
  if (file.keys === undefined) return { state: "invalid", errors: file.errors };
  const isFresh = options.known.get(file.path)?.hash !== file.hash;
  const takeOverFrom = (key: ResourceKey): string[] =>
    declarers.filesDeclaring(key).filter((other) => {
      if (other === file.path) return false;
      const view = loaded.get(other) ?? options.known.get(other);
      const isGone = view
        ? view.keys !== undefined && !listsResource(view, key)
        : !options.isUnknown(other);
      // New or changed: the resource has moved here. A file that was here all along waits until the
      // other one is gone for good, so that a save of that one does not make them change places.
      return isGone && (isFresh || options.isConfirmedMissing({ ...key, file: other }));
    });
  return applyFile(file, {
    store: options.store,
    takeOverFrom: (key) => takeOverFrom(key).map(formatFileManager),
    isForceDeleted: (key) => options.isForceDeleted(key, file),
    onApplied: (key, result) => {
      declarers.move(key, takeOverFrom(key), file.path);
      options.events.recordApplied(key, file.path, result);
    },
  });
}

/** Which files the store has as declaring each resource, kept in step with what is applied. */
class Declarers {
  readonly #files = new Map<string, Set<string>>();

  constructor(declared: readonly DeclaredResource[]) {
    for (const { file, ...key } of declared) this.move(key, [], file);
  }

  filesDeclaring(key: ResourceKey): string[] {
    return [...(this.#files.get(formatResourceKey(key)) ?? [])];
  }

  move(key: ResourceKey, from: readonly string[], to: string): void {
    const files = this.#files.get(formatResourceKey(key)) ?? new Set();
    for (const file of from) files.delete(file);
    this.#files.set(formatResourceKey(key), files.add(to));
  }
}
