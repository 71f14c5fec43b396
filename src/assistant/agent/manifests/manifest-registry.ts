import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { Debouncer } from "../../../base/debouncer.ts";
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
  type ManifestCandidate,
  type ManifestReport,
} from "./manifest-report.ts";
import { parseBuiltInManifest } from "./parse-manifest.ts";

/** For what no watch tells of: a link's target, a network folder, a system without watches to give. */
const SCAN_INTERVAL_MS = 60_000;

export interface ManifestRegistryOptions {
  /** The one that wins first; the first is the user's own. Absolute paths, which need not be there. */
  readonly directories: readonly string[];
  /**
   * Manifests that Berth ships, as their files would hold them. Only the user's own directory comes before
   * them. Throws BerthError (`internal`) where one is wrong.
   */
  readonly builtIn?: readonly object[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whose manifests count, beside root's; undefined: those of the user of this process. */
  readonly userId?: number;
}

/** The tools that manifests declare, kept up to date with the folders. Built-in ones are there at once. */
export class ManifestRegistry implements ToolRegistry, AsyncDisposable {
  readonly #folders: readonly ManifestFolder[];
  readonly #builtIn: readonly AppManifest[];
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tasks: TaskGroup;
  readonly #watchers: readonly ManifestFolderWatcher[];
  readonly #debouncer: Debouncer;
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

  /** Resolves when every manifest has been read, and changes are followed. Call it once. */
  async start(): Promise<void> {
    await this.rescan();
  }

  /** Looks at everything now; resolves when it has been. Never rejects. */
  async rescan(): Promise<void> {
    this.#requestScan();
    // A look that is under way may have passed what has changed meanwhile.
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

  /** Every manifest that there is, and what became of it. */
  report(): readonly ManifestReport[] {
    return buildManifestReports(this.#entries());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#debouncer.cancel();
    this.#cancelScheduledScan?.();
    await this.#tasks[Symbol.asyncDispose]();
    this.#debouncer.cancel();
    this.#cancelScheduledScan?.();
    await Promise.all(this.#watchers.map((hints) => hints[Symbol.asyncDispose]()));
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

  /** One look at a time; whatever is asked for meanwhile is one more. */
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
      await Promise.all(this.#watchers.map((hints) => hints.updateWatches()));
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
  }

  /** Which manifest counts for each app, ordered by app id. */
  #selectManifests(): ReadonlyMap<string, { manifest: AppManifest; signature: string }> {
    const taken = new Map<string, { manifest: AppManifest; signature: string } | undefined>();
    for (const { appId, manifest, signature } of this.#entries()) {
      if (!taken.has(appId)) taken.set(appId, manifest && { manifest, signature });
    }
    return new Map(
      [...taken]
        .flatMap(([id, entry]) => (entry ? [[id, entry] as const] : []))
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
  }

  /** In the order in which they win: the user's own, Berth's, the others. */
  #entries(): readonly (ManifestCandidate & { readonly signature: string })[] {
    const [own = [], ...others] = this.#folders.map(({ directory, files }) =>
      [...files.values()].map((state) => toCandidate(directory, state)),
    );
    const builtIn = this.#builtIn.map((manifest) => ({
      appId: manifest.appId,
      file: undefined,
      manifest,
      tools: manifest.tools,
      faults: [],
      signature: computeManifestSignature(manifest),
    }));
    return [...own, ...builtIn, ...others.flat()];
  }

  /** Each change once: tools that come and go, and manifests that are wrong. */
  #log(apps: ReadonlyMap<string, { readonly manifest: AppManifest }>): void {
    for (const [app, { manifest }] of apps) {
      if (this.#apps.get(app)?.manifest === manifest) continue;
      this.#logger.info({ app, tools: manifest.tools.length }, "an app's tools are there");
    }
    for (const app of this.#apps.keys()) {
      if (!apps.has(app)) this.#logger.info({ app }, "an app's tools are gone");
    }
    const told = new Map<string, string>();
    for (const { appId, file, faults } of this.#entries()) {
      const fault = faults.find(({ severity }) => severity === "error");
      if (!fault || file === undefined) continue;
      const { pointer, message } = fault;
      told.set(file, `${pointer} ${message}`);
      if (this.#loggedProblems.get(file) === told.get(file)) continue;
      this.#logger.warn({ app: appId, pointer, reason: message }, "a tool manifest is rejected");
    }
    for (const { directory, problem } of this.#folders) {
      if (problem === undefined) continue;
      told.set(directory, problem);
      if (this.#loggedProblems.get(directory) === problem) continue;
      this.#logger.warn({ reason: problem }, "a folder of tool manifests cannot be read");
    }
    this.#loggedProblems = told;
  }
}

function toCandidate(
  directory: string,
  state: ManifestFileState,
): ManifestCandidate & { readonly signature: string } {
  const { name, stem, parsed, manifest, signature } = state;
  const { tools, faults } = parsed;
  return { appId: stem, file: join(directory, name), manifest, tools, faults, signature };
}
