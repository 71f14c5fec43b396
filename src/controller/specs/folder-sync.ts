import { join, posix } from "node:path";
import { type Clock, timestamp } from "../../base/clock.ts";
import { isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { SpecsTrust } from "../../config/server-settings.ts";
import type { AdmissionSettings } from "../../resources/app-admission.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import type { SpecsReport } from "../port.ts";
import type { FileOutcome } from "./apply-file.ts";
import { applyFiles } from "./apply-files.ts";
import { findFileAuthority } from "./file-trust.ts";
import { ForcedDeletions } from "./forced-deletions.ts";
import {
  CONFIRM_AFTER_MS,
  type DeclaredResource,
  decidePrune,
  formatDeclaredId,
  type HeldPrune,
  listsResource,
} from "./prune-guard.ts";
import { readSpecFile } from "./read-spec-file.ts";
import {
  type AbsentFolder,
  type FolderLocation,
  type PresentFolder,
  scanFolder,
} from "./scan-folder.ts";
import { SpecEvents } from "./spec-events.ts";
import {
  buildFileReport,
  formatFileManager,
  type LoadedFile,
  loadFile,
  MANAGER_PREFIX,
  parseFileManager,
  type SpecFile,
} from "./spec-file.ts";

const CONCURRENT_READS_MAX = 16;
export interface FolderSyncOptions {
  readonly folder: string;
  readonly admission: AdmissionSettings;
  /** Files that may use fields which reach outside of an App. Default: those that only root and this user can write. */
  readonly trust?: SpecsTrust;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ScanResult {
  /** The real path and the identity of the watched folder; undefined if the folder does not exist. */
  readonly location: FolderLocation | undefined;
  /** The time when another scan is due without an event, in epoch milliseconds. */
  readonly recheckAt: number | null;
}

/**
 * Makes the store match the folder, one scan at a time. Level-triggered: each scan compares all files with all
 * resources that are declared by files according to the store, and depends on no event. Not safe for concurrent scans:
 * `SpecFolder` serialises them.
 */
export class FolderSync implements Disposable {
  readonly #folder: string;
  readonly #admission: AdmissionSettings;
  readonly #trust: SpecsTrust;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #events: SpecEvents;
  readonly #forcedDeletions: ForcedDeletions;
  readonly #unwatch: () => void;

  #files = new Map<string, SpecFile>();
  #absent: AbsentFolder | undefined;
  #isEmpty = false;
  #held: readonly HeldPrune[] = [];
  /** Folders that were not read, and the reasons. */
  #unread: ReadonlyMap<string, string> = new Map();
  #approved = new Set<string>();
  #missingSince: ReadonlyMap<string, number> = new Map();
  /** The file system on which each file was last seen, including files that no longer exist. */
  #devices = new Map<string, bigint>();
  #realpath: string | undefined;
  #isWriting = false;

  constructor(parts: FolderSyncOptions) {
    this.#folder = parts.folder;
    this.#admission = parts.admission;
    this.#trust = parts.trust ?? "folder";
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#events = new SpecEvents(parts.store.events, parts.logger);
    this.#forcedDeletions = new ForcedDeletions(parts.store.settings);
    this.#unwatch = parts.store.watch((change) => this.#noticeForcedDeletion(change));
  }

  /** Scans the folder. `suspects` are files that are read again even if their stamps are unchanged. */
  async scan(suspects: ReadonlySet<string>, signal: AbortSignal): Promise<ScanResult> {
    const scan = await scanFolder(this.#folder, signal);
    signal.throwIfAborted();
    if (scan.state !== "present") {
      this.#recordAbsence(scan);
      return { location: undefined, recheckAt: null };
    }
    if (this.#absent) this.#events.logFolderReturned();
    this.#absent = undefined;
    // The watched link now leads to another folder, which may be on another file system.
    if (scan.realpath !== this.#realpath) this.#devices = new Map();
    this.#realpath = scan.realpath;
    this.#unread = scan.unknown;

    const loaded = await this.#loadChanged(scan, suspects, signal);
    await this.#apply(scan, loaded, signal);
    const recheckAt = this.#prune(scan);
    this.#updateHistory(scan);
    return { location: scan, recheckAt };
  }

  /** Approves and returns the deletions that have waited for the user's approval. The next scan executes them. */
  confirmPrune(): readonly DeclaredResource[] {
    for (const held of this.#held) this.#approved.add(formatDeclaredId(held));
    return this.#held.map(({ kind, name, file }) => ({ kind, name, file }));
  }

  report(): SpecsReport {
    return {
      folder: this.#folder,
      state: this.#absent?.state ?? (this.#isEmpty ? "empty" : "watching"),
      message: this.#message(),
      files: [...this.#files.values()].map((file) => this.#buildReport(file)),
      pendingPrune: this.#held.map(({ kind, name, file }) => ({ kind, name, file })),
    };
  }

  /** Builds the report of one file, including fields that another manager took over since it was applied. */
  #buildReport(file: SpecFile): SpecsReport["files"][number] {
    const report = buildFileReport(file);
    const resources = report.resources.map((resource) => {
      const entry = this.#store.get(resource.kind, resource.name)?.metadata.managers[
        formatFileManager(file.path)
      ];
      return entry ? { ...resource, yielded: entry.yielded } : resource;
    });
    return { ...report, resources };
  }

  /** True if a file waits for a change of the store, for example because another file still declares its resource. */
  get hasRetries(): boolean {
    return [...this.#files.values()].some((file) => file.shouldRetry);
  }

  [Symbol.dispose](): void {
    this.#unwatch();
  }

  /** Handles a missing folder. All applied resources are kept, and none of them counts as missing. */
  #recordAbsence(absent: AbsentFolder): void {
    if (this.#absent?.message !== absent.message) this.#events.recordFolderAbsent(absent);
    this.#absent = absent;
    this.#isEmpty = false;
    this.#held = [];
    this.#missingSince = new Map();
  }

  /** Reads the texts of the files that may differ from the applied texts. */
  async #loadChanged(
    scan: PresentFolder,
    suspects: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<Map<string, LoadedFile>> {
    const lost = this.#findLostFiles();
    const next = new Map<string, SpecFile>();
    const loaded = new Map<string, LoadedFile>();
    const queue: string[] = [];
    for (const [path, { stamp }] of scan.files) {
      const known = this.#files.get(path);
      const isSame =
        known?.stamp === stamp && !known.shouldRetry && !suspects.has(path) && !lost.has(path);
      if (known && isSame) next.set(path, known);
      else queue.push(path);
    }
    const gone = new Set<string>();
    const read = async (path: string): Promise<void> => {
      const scanned = scan.files.get(path);
      if (!scanned) return;
      const known = this.#files.get(path);
      const content =
        scanned.problem === undefined
          ? await readSpecFile(join(scan.realpath, path))
          : { problem: scanned.problem };
      signal.throwIfAborted();
      if (content === undefined) {
        gone.add(path);
        return;
      }
      const isSame =
        known &&
        "hash" in content &&
        known.hash === content.hash &&
        !known.shouldRetry &&
        !lost.has(path);
      if (isSame) next.set(path, { ...known, stamp: scanned.stamp });
      else {
        const trust = { folder: this.#folder, trust: this.#trust };
        const authority = findFileAuthority(path, trust);
        loaded.set(path, loadFile(this.#folder, path, scanned, content, authority));
      }
    };
    const worker = async (): Promise<void> => {
      for (let path = queue.pop(); path !== undefined; path = queue.pop()) await read(path);
    };
    await Promise.all(Array.from({ length: CONCURRENT_READS_MAX }, worker));

    // The map has the order of the scan. A file that `#apply` has not applied yet keeps its entry of the previous scan.
    this.#files = new Map(
      [...scan.files.keys()].flatMap((path) => {
        const file = next.get(path) ?? (gone.has(path) ? undefined : this.#files.get(path));
        return file ? [[path, file]] : [];
      }),
    );
    return new Map([...loaded].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Lists files whose resources are not in the store any more, although no deletion was recorded. */
  #findLostFiles(): ReadonlySet<string> {
    const declared = new Set(this.#listDeclared().map(formatDeclaredId));
    const lost = new Set<string>();
    for (const { path, state, hash, keys } of this.#files.values()) {
      if (state !== "applied") continue;
      for (const key of keys ?? []) {
        const isThere = declared.has(formatDeclaredId({ ...key, file: path }));
        if (!isThere && !this.#forcedDeletions.has(key, path, hash)) lost.add(path);
      }
    }
    return lost;
  }

  async #apply(
    scan: PresentFolder,
    loaded: ReadonlyMap<string, LoadedFile>,
    signal: AbortSignal,
  ): Promise<void> {
    if (loaded.size === 0) return;
    const files = new Map(this.#files);
    await applyFiles(
      loaded,
      {
        store: this.#store,
        admission: this.#admission,
        events: this.#events,
        declared: () => this.#listDeclared(),
        known: this.#files,
        isUnknown: (file) => isUnknown(scan, file),
        isConfirmedMissing: (declared) => this.#isConfirmedMissing(declared),
        isForceDeleted: (key, { path, hash }) => this.#forcedDeletions.has(key, path, hash),
        onOutcome: (file, outcome) => {
          const next = this.#buildSpecFile(file, outcome);
          this.#events.recordRefused(files.get(file.path), next);
          files.set(file.path, next);
        },
      },
      signal,
    );
    this.#files = new Map([...files].toSorted(([x], [y]) => (x < y ? -1 : 1)));
  }

  #buildSpecFile(file: LoadedFile, outcome: FileOutcome): SpecFile {
    const { path, stamp, hash, keys, mentions } = file;
    const time = timestamp(this.#clock.now());
    const state = outcome.state;
    const shared = { path, stamp, hash, keys, mentions, time, state };
    if (outcome.state === "applied") {
      return { ...shared, shouldRetry: false, resources: outcome.resources, errors: [] };
    }
    const resources = this.#listDeclared()
      .filter((declared) => declared.file === path)
      .map(({ kind, name }) => ({ kind, name, yielded: [] }));
    return { ...shared, shouldRetry: file.keys !== undefined, resources, errors: outcome.errors };
  }

  #prune(scan: PresentFolder): number | null {
    const declared = this.#listDeclared();
    const isEmpty = scan.files.size === 0 && scan.unknown.size === 0;
    const decision = decidePrune({
      declared,
      files: this.#files,
      isUnknown: (file) => isUnknown(scan, file),
      isUnmounted: (file) => this.#isUnmounted(scan, file),
      isEmpty,
      missingSince: this.#missingSince,
      approved: this.#approved,
      now: this.#clock.now(),
    });
    this.#missingSince = decision.missingSince;
    this.#approved = new Set([...this.#approved].filter((id) => decision.missingSince.has(id)));
    for (const pruned of decision.prune) this.#pruneResource(pruned);
    this.#isEmpty = isEmpty && declared.length > decision.prune.length;
    this.#events.recordHeld(this.#held, decision.held);
    this.#held = decision.held;
    return decision.recheckAt;
  }

  /**
   * Deletes the resource before it removes the file from the resource's managers. After a crash in between, the file
   * still declares the resource, and the next start completes the deletion.
   */
  #pruneResource({ kind, name, file }: DeclaredResource): void {
    const manager = formatFileManager(file);
    this.#isWriting = true;
    try {
      const intent = { actor: { name: manager }, manager, force: true };
      if (this.#store.get(kind, name)?.metadata.deletionTimestamp === null) {
        this.#store.delete(kind, name, intent);
      }
      if (this.#store.get(kind, name)) this.#store.releaseManager(kind, name, manager);
      this.#events.recordPruned({ kind, name, file });
    } catch (error) {
      if (isAbortError(error)) throw error;
      this.#events.logPruneFailure({ kind, name, file }, error);
    } finally {
      this.#isWriting = false;
    }
  }

  #updateHistory(scan: PresentFolder): void {
    for (const path of scan.files.keys()) {
      const device = scan.folders.get(getParent(path));
      if (device !== undefined) this.#devices.set(path, device);
    }
    const kept = new Set(this.#listDeclared().map(({ file }) => file));
    for (const path of this.#devices.keys()) {
      if (!scan.files.has(path) && !kept.has(path)) this.#devices.delete(path);
    }
    this.#forcedDeletions.keepOnly((file, hash) => {
      const known = this.#files.get(file);
      return known ? known.hash === hash || known.keys === undefined : isUnknown(scan, file);
    });
  }

  /** Records that another manager deletes a resource, which then stays deleted until its file's text changes. */
  #noticeForcedDeletion({ type, kind, name }: StoreChange): void {
    if (this.#isWriting || kind === null || (type !== "modified" && type !== "deleted")) return;
    const resource = this.#store.get(kind, name);
    if (resource && resource.metadata.deletionTimestamp === null) return;
    for (const file of this.#files.values()) {
      const key = { kind, name };
      if (file.state === "applied" && listsResource(file, key)) {
        this.#forcedDeletions.add(key, file.path, file.hash);
      }
    }
  }

  #listDeclared(): DeclaredResource[] {
    const declared: DeclaredResource[] = [];
    for (const [manager, keys] of this.#store.listDeclared(MANAGER_PREFIX)) {
      for (const { kind, name } of keys)
        declared.push({ kind, name, file: parseFileManager(manager) });
    }
    return declared;
  }

  #isConfirmedMissing(declared: DeclaredResource): boolean {
    const since = this.#missingSince.get(formatDeclaredId(declared));
    return since !== undefined && this.#clock.now() - since >= CONFIRM_AFTER_MS;
  }

  #isUnmounted(scan: PresentFolder, file: string): boolean {
    const device = this.#devices.get(file);
    if (device === undefined) return false;
    let folder = getParent(file);
    while (folder !== "" && !scan.folders.has(folder)) folder = getParent(folder);
    return scan.folders.get(folder) !== device;
  }

  #message(): string | null {
    if (this.#absent) {
      return `the folder is ${this.#absent.state} (${this.#absent.message}): what was applied before stays as it is`;
    }
    const [first] = this.#held;
    if (!first) {
      const [unread] = this.#unread;
      return unread ? `the folder ${unread[0]} is not read: ${unread[1]}` : null;
    }
    const count =
      this.#held.length === 1 ? "one deletion waits" : `${this.#held.length} deletions wait`;
    return `${count} until \`berth prune --confirm\` is run: ${first.reason}`;
  }
}

function isUnknown(scan: PresentFolder, file: string): boolean {
  for (let path = file; path !== ""; path = getParent(path)) {
    if (scan.unknown.has(path)) return true;
  }
  return false;
}

function getParent(path: string): string {
  const parent = posix.dirname(path);
  return parent === "." ? "" : parent;
}
