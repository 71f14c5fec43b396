import { setImmediate as nextTurn } from "node:timers/promises";
import { getErrorMessage } from "../../base/errors.ts";
import { type AdmissionSettings, AppAdmission } from "../../resources/app-admission.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import { applyFile, type FileOutcome, findInadmissible } from "./apply-file.ts";
import {
  type DeclaredResource,
  type FileView,
  formatResourceKey,
  listsResource,
  type ResourceKey,
} from "./prune-guard.ts";
import type { SpecEvents } from "./spec-events.ts";
import { formatFileManager, type LoadedFile } from "./spec-file.ts";

/**
 * The number of files that are committed together. The event loop runs after each batch, because the store is
 * synchronous.
 */
const FILES_IN_A_BATCH = 20;

export interface ApplyFilesOptions {
  readonly store: Store;
  readonly admission: AdmissionSettings;
  readonly events: SpecEvents;
  /** The resources that files declare, according to the store. */
  readonly declared: () => readonly DeclaredResource[];
  /** The spec files of the previous scan. If `loaded` also has an entry for a file, that entry applies. */
  readonly known: ReadonlyMap<string, FileView & { readonly hash: string }>;
  /** Returns true if a file that the scan has not found may still exist. */
  readonly isUnknown: (file: string) => boolean;
  /** Returns true if a resource has been missing from its former file for long enough to count as removed. */
  readonly isConfirmedMissing: (declared: DeclaredResource) => boolean;
  readonly isForceDeleted: (key: ResourceKey, file: LoadedFile) => boolean;
  readonly onOutcome: (file: LoadedFile, outcome: FileOutcome) => void;
}

/**
 * Applies files in order, including resources that have moved between them. If two files conflict, the later one is
 * refused. Rejects only when `signal` aborts.
 */
export async function applyFiles(
  loaded: ReadonlyMap<string, LoadedFile>,
  options: ApplyFilesOptions,
  signal: AbortSignal,
): Promise<void> {
  const files = [...loaded.values()];
  const inadmissible: InadmissibleFile[] = [];
  for (let start = 0; start < files.length; start += FILES_IN_A_BATCH) {
    if (start > 0) await nextTurn(undefined, { signal });
    const batch = files.slice(start, start + FILES_IN_A_BATCH);
    const outcomes = applyBatch(batch, loaded, options, createAdmission(loaded, options));
    for (const [index, outcome] of outcomes.entries()) {
      const file = batch[index];
      if (!file) continue;
      if (outcome.state !== "applied" && outcome.inadmissible)
        inadmissible.push({ file, apps: outcome.inadmissible, outcome });
      else options.onOutcome(file, outcome);
    }
  }
  applyTogether(inadmissible, loaded, options);
}

interface InadmissibleFile {
  readonly file: LoadedFile;
  readonly apps: readonly Resource<"App">[];
  readonly outcome: FileOutcome;
}

/**
 * Applies files together that were refused only because of each other, for example if two Apps exchange their domains.
 * If the files cannot be applied together, the last ones are refused first.
 */
function applyTogether(
  refused: readonly InadmissibleFile[],
  loaded: ReadonlyMap<string, LoadedFile>,
  options: ApplyFilesOptions,
): void {
  if (refused.length === 0) return;
  const admission = createAdmission(loaded, options);
  let rest = refused;
  for (const { apps } of rest) for (const app of apps) admission.expect(app);
  const isRefused = ({ apps }: InadmissibleFile) =>
    apps.some((app) => findInadmissible(admission, app) !== undefined);
  for (let last = rest.findLast(isRefused); last; last = rest.findLast(isRefused)) {
    const { file, apps, outcome } = last;
    options.onOutcome(file, outcome);
    for (const { metadata } of apps) admission.restore(metadata.name);
    rest = rest.filter((other) => other.file !== file);
  }
  const batch = rest.map(({ file }) => file);
  for (const [index, outcome] of applyBatch(batch, loaded, options).entries()) {
    const file = batch[index];
    if (file) options.onOutcome(file, outcome);
  }
}

/** Creates the admission check. It ignores Apps that no file declares any more, because they are about to be pruned. */
function createAdmission(
  loaded: ReadonlyMap<string, LoadedFile>,
  { store, admission: settings, declared, known, isUnknown }: ApplyFilesOptions,
): AppAdmission {
  const admission = new AppAdmission(store, settings);
  const isLeaving = ({ file, ...key }: DeclaredResource) => {
    const view = loaded.get(file) ?? known.get(file);
    return view ? view.keys !== undefined && !listsResource(view, key) : !isUnknown(file);
  };
  for (const resource of declared())
    if (resource.kind === "App" && isLeaving(resource)) admission.ignore(resource.name);
  return admission;
}

function applyBatch(
  batch: readonly LoadedFile[],
  loaded: ReadonlyMap<string, LoadedFile>,
  options: ApplyFilesOptions,
  admission?: AppAdmission,
): FileOutcome[] {
  try {
    const declarers = new Declarers(options.declared());
    return options.store.batch(() =>
      batch.map((file) => applyOne(file, loaded, declarers, options, admission)),
    );
  } catch {
    // The batch failed and was rolled back. Each file is now applied separately, to find the one that fails.
    const declarers = new Declarers(options.declared());
    return batch.map((file) => {
      // Each file gets an admission check of its own, because a file that cannot be stored must not affect the check of
      // the next file.
      const separate = admission && createAdmission(loaded, options);
      try {
        return options.store.batch(() => applyOne(file, loaded, declarers, options, separate));
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
  admission: AppAdmission | undefined,
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
      // A new or changed file takes over the resource at once, because the resource has moved into it. An unchanged
      // file waits until it is certain that the other file has lost the resource, because an editor may leave a file
      // empty for a moment while it saves.
      return isGone && (isFresh || options.isConfirmedMissing({ ...key, file: other }));
    });
  return applyFile(file, {
    store: options.store,
    admission,
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
