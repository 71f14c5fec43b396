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

/** The number of files that are committed together before the event loop runs, since the store is synchronous. */
const FILES_IN_A_BATCH = 20;

export interface ApplyFilesOptions {
  readonly store: Store;
  readonly events: SpecEvents;
  /** The resources that the store has as declared by files. */
  readonly declared: () => readonly DeclaredResource[];
  /** Every known file in its earlier state; the state in `loaded` takes precedence. */
  readonly known: ReadonlyMap<string, FileView & { readonly hash: string }>;
  /** Returns true if an unknown file may exist all the same. */
  readonly isUnknown: (file: string) => boolean;
  /** Returns true if a file has been without this resource for long enough. */
  readonly isConfirmedMissing: (declared: DeclaredResource) => boolean;
  readonly isForceDeleted: (key: ResourceKey, file: LoadedFile) => boolean;
  readonly onOutcome: (file: LoadedFile, outcome: FileOutcome) => void;
}

/** Applies files in order, and resources that have moved between them. Rejects only when `signal` aborts. */
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
    // The batch failed and was rolled back, so each file is applied separately to find the cause.
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
      // A new or changed file takes the resource over at once: it has moved here. An unchanged file waits until the
      // other file is confirmed to have lost it, because an editor may leave a file empty for a moment while it saves.
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

/** An index from resources to the files that declare them, updated while files are applied. */
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
