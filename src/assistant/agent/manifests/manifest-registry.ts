import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { Debouncer } from "../../../base/debouncer.ts";
import { Listeners } from "../../../base/listeners.ts";
import type { Logger } from "../../../base/logger.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import type { AppManifest, ToolRegistry } from "../tool-manifest.ts";
import {
  computeManifestSignature,
  type ManifestFileState,
  ManifestFolder,
} from "./manifest-folder.ts";
import { ManifestFolderWatcher } from "./manifest-folder-watcher.ts";
import {
  buildManifestReports,
  findBuiltInIdFault,
  type ManifestCandidate,
  type ManifestReport,
} from "./manifest-report.ts";
import { parseBuiltInManifest } from "./parse-manifest.ts";

/**
 * All folders are scanned this often, to find changes that no file watch reports: in targets of links, on network
 * file systems, and when the system has no free watches.
 */
const SCAN_INTERVAL_MS = 60_000;

export interface ManifestRegistryOptions {
  /**
   * Absolute paths of folders, highest priority first; the first one is the user's own folder. Folders may be
   * missing.
   */
  readonly directories: readonly string[];
  /**
   * Manifests that ship with Berth, as JSON documents. No file may take their place, because users trust the tiers of
   * Berth's own tools. The constructor throws BerthError (`internal`) if one of them is invalid.
   */
  readonly builtIn?: readonly object[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** The user whose manifests are accepted in addition to root's; defaults to the user of this process. */
  readonly userId?: number;
}

/**
 * The tools that manifests declare, updated when the manifest folders change. Built-in manifests are available before
 * the first scan of the folders ends.
 */
export class ManifestRegistry implements ToolRegistry, AsyncDisposable {
  readonly #folders: readonly ManifestFolder[];
  readonly #builtIn: readonly AppManifest[];
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tasks: TaskGroup;
  readonly #watchers: readonly ManifestFolderWatcher[];
  readonly #debouncer: Debouncer;
  readonly #listeners: Listeners<() => void>;
  #suspects = new Map<ManifestFolder, Set<string>>();
  #scanning: Promise<void> | undefined;
  #isScanRequested = false;
  #cancelScheduledScan: (() => void) | undefined;
  #apps: ReadonlyMap<string, { readonly manifest: AppManifest; readonly signature: string }>;
  #loggedProblems = new Map<string, string>();
  #version = 1;

  constructor(options: ManifestRegistryOptions) {
    const { directories, clock, logger } = options;
    const userId = options.userId ?? process.getuid?.() ?? 0;
    this.#clock = clock;
    this.#logger = logger;
    this.#listeners = new Listeners(logger);
    this.#builtIn = (options.builtIn ?? []).map(parseBuiltInManifest);
    this.#folders = directories.map(
      (directory) => new ManifestFolder({ directory, userId, clock }),
    );
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ err: error, task: name }, "the scan for tool manifests failed"),
    );
    this.#debouncer = new Debouncer(clock, () => this.#requestScan());
    this.#watchers = this.#folders.map((folder) => this.#createWatcher(folder));
    this.#apps = this.#selectManifests();
  }

  /** Resolves when every manifest has been read and all folders are watched. Call this method only once. */
  async start(): Promise<void> {
    await this.rescan();
  }

  /** Scans all folders now and resolves afterwards. Never rejects. */
  async rescan(): Promise<void> {
    this.#requestScan();
    // A running scan may have read a file before the file's last change, so another scan follows.
    while (this.#scanning) await this.#scanning;
  }

  apps(): readonly AppManifest[] {
    return [...this.#apps.values()].map(({ manifest }) => manifest);
  }

  find(appId: string): AppManifest | undefined {
    return this.#apps.get(appId)?.manifest;
  }

  get version(): number {
    return this.#version;
  }

  subscribe(onChanged: () => void): () => void {
    return this.#listeners.add(onChanged);
  }

  report(): readonly ManifestReport[] {
    return buildManifestReports(this.#entries());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#debouncer.cancel();
    this.#cancelScheduledScan?.();
    await this.#tasks[Symbol.asyncDispose]();
    this.#debouncer.cancel();
    this.#cancelScheduledScan?.();
    await Promise.all(this.#watchers.map((watcher) => watcher[Symbol.asyncDispose]()));
  }

  #createWatcher(folder: ManifestFolder): ManifestFolderWatcher {
    return new ManifestFolderWatcher(folder.directory, {
      onChange: (name) => {
        if (this.#tasks.signal.aborted) return;
        if (name !== undefined) this.#getSuspects(folder).add(name);
        this.#debouncer.trigger();
      },
      onError: (error) =>
        this.#logger.warn(
          { err: error },
          "a folder of tool manifests cannot be watched and is only scanned periodically",
        ),
    });
  }

  #getSuspects(folder: ManifestFolder): Set<string> {
    let names = this.#suspects.get(folder);
    if (!names) this.#suspects.set(folder, (names = new Set()));
    return names;
  }

  /** Only one scan runs at a time; requests during a scan cause one further scan. */
  #requestScan(): void {
    this.#isScanRequested = true;
    if (this.#scanning) return;
    this.#tasks.run("scan", (signal) => {
      this.#scanning = this.#scanWhileRequested(signal).finally(() => {
        this.#scanning = undefined;
        if (this.#isScanRequested) this.#requestScan();
      });
      return this.#scanning;
    });
  }

  async #scanWhileRequested(signal: AbortSignal): Promise<void> {
    while (this.#isScanRequested && !signal.aborted) {
      this.#isScanRequested = false;
      const suspects = this.#suspects;
      this.#suspects = new Map();
      await Promise.all(
        this.#folders.map((folder) => folder.scan(suspects.get(folder) ?? new Set())),
      );
      this.#publish();
      await Promise.all(this.#watchers.map((watcher) => watcher.updateWatches()));
    }
    if (!signal.aborted) this.#scheduleScan();
  }

  #scheduleScan(): void {
    const held = this.#folders.flatMap(({ recheckAt }) => recheckAt ?? []);
    const dueMs = Math.min(...held.map((time) => time - this.#clock.now()), SCAN_INTERVAL_MS);
    this.#cancelScheduledScan?.();
    this.#cancelScheduledScan = this.#clock.setTimer(Math.max(dueMs, 0), () => this.#requestScan());
  }

  #publish(): void {
    const apps = this.#selectManifests();
    const isSame =
      apps.size === this.#apps.size &&
      [...apps].every(([id, { signature }]) => this.#apps.get(id)?.signature === signature);
    this.#log(apps);
    if (isSame) return;
    this.#apps = apps;
    this.#version += 1;
    this.#listeners.notify((onChanged) => onChanged());
  }

  /** Returns the manifest in use of each app, ordered by app id. */
  #selectManifests(): ReadonlyMap<string, { manifest: AppManifest; signature: string }> {
    const selected = new Map<string, { manifest: AppManifest; signature: string } | undefined>();
    for (const { appId, manifest, signature } of this.#entries()) {
      if (!selected.has(appId)) selected.set(appId, manifest && { manifest, signature });
    }
    return new Map(
      [...selected]
        .flatMap(([id, entry]) => (entry ? [[id, entry] as const] : []))
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
  }

  /** Returns all manifests by priority: the built-in ones, then those of each folder. */
  #entries(): readonly (ManifestCandidate & { readonly signature: string })[] {
    const builtInIds = this.#builtIn.map(({ appId }) => appId);
    const files = this.#folders.flatMap(({ directory, files: states }) =>
      [...states.values()].map((state) => toCandidate(directory, state, builtInIds)),
    );
    const builtIn = this.#builtIn.map((manifest) => ({
      appId: manifest.appId,
      file: undefined,
      manifest,
      tools: manifest.tools,
      faults: [],
      signature: computeManifestSignature(manifest),
    }));
    return [...builtIn, ...files];
  }

  /** Logs each change once: added and removed tools, rejected manifests and unreadable folders. */
  #log(apps: ReadonlyMap<string, { readonly manifest: AppManifest }>): void {
    for (const [app, { manifest }] of apps) {
      if (this.#apps.get(app)?.manifest === manifest) continue;
      this.#logger.info(
        { app, tools: manifest.tools.length },
        "an app's tools were added or changed",
      );
    }
    for (const app of this.#apps.keys()) {
      if (!apps.has(app)) this.#logger.info({ app }, "an app's tools were removed");
    }
    const logged = new Map<string, string>();
    for (const { appId, file, faults } of this.#entries()) {
      const fault = faults.find(({ severity }) => severity === "error");
      if (!fault || file === undefined) continue;
      const { pointer, message } = fault;
      logged.set(file, `${pointer} ${message}`);
      if (this.#loggedProblems.get(file) === logged.get(file)) continue;
      this.#logger.warn({ app: appId, pointer, reason: message }, "a tool manifest is rejected");
    }
    for (const { directory, problem } of this.#folders) {
      if (problem === undefined) continue;
      logged.set(directory, problem);
      if (this.#loggedProblems.get(directory) === problem) continue;
      this.#logger.warn({ reason: problem }, "a folder of tool manifests cannot be read");
    }
    this.#loggedProblems = logged;
  }
}

function toCandidate(
  directory: string,
  state: ManifestFileState,
  builtInIds: readonly string[],
): ManifestCandidate & { readonly signature: string } {
  const { name, stem, parsed, manifest, signature } = state;
  const { tools } = parsed;
  const fault = findBuiltInIdFault(stem, builtInIds);
  return {
    appId: stem,
    file: join(directory, name),
    manifest: fault ? undefined : manifest,
    tools,
    faults: fault ? [fault, ...parsed.faults] : parsed.faults,
    signature,
  };
}
