import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { HintTimer } from "../../../base/hint-timer.ts";
import type { Logger } from "../../../base/logger.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import type { AppManifest, ToolRegistry } from "../manifest.ts";
import { FolderHints } from "./folder-hints.ts";
import { type FileState, FolderState, signatureOf } from "./folder-state.ts";
import { builtInManifest } from "./parse-manifest.ts";
import { type Candidate, type ManifestReport, reportOf } from "./report.ts";

/** For what no watch tells of: a link's target, a network folder, a system without watches to give. */
const LOOK_EVERY_MS = 60_000;

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
  readonly #folders: readonly FolderState[];
  readonly #builtIn: readonly AppManifest[];
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tasks: TaskGroup;
  readonly #hints: readonly FolderHints[];
  readonly #timer: HintTimer;
  #suspects = new Map<FolderState, Set<string>>();
  #looking: Promise<void> | undefined;
  #isLookWanted = false;
  #cancelLook: (() => void) | undefined;
  #apps: ReadonlyMap<string, { readonly manifest: AppManifest; readonly signature: string }>;
  #told = new Map<string, string>();
  #version = 1;

  constructor(options: ManifestRegistryOptions) {
    const { directories, clock, logger } = options;
    const userId = options.userId ?? process.getuid?.() ?? 0;
    this.#clock = clock;
    this.#logger = logger;
    this.#builtIn = (options.builtIn ?? []).map(builtInManifest);
    this.#folders = directories.map((directory) => new FolderState({ directory, userId, clock }));
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ err: error, task: name }, "looking for tool manifests failed"),
    );
    this.#timer = new HintTimer(clock, () => this.#lookSoon());
    this.#hints = this.#folders.map((folder) => this.#hintsOf(folder));
    this.#apps = this.#counted();
  }

  /** Resolves when every manifest has been read, and changes are followed. Call it once. */
  async start(): Promise<void> {
    await this.rescan();
  }

  /** Looks at everything now; resolves when it has been. Never rejects. */
  async rescan(): Promise<void> {
    this.#lookSoon();
    // A look that is under way may have passed what has changed meanwhile.
    while (this.#looking) await this.#looking;
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
    return reportOf(this.#entries());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#timer.stop();
    this.#cancelLook?.();
    await this.#tasks[Symbol.asyncDispose]();
    this.#timer.stop();
    this.#cancelLook?.();
    await Promise.all(this.#hints.map((hints) => hints[Symbol.asyncDispose]()));
  }

  #hintsOf(folder: FolderState): FolderHints {
    return new FolderHints(folder.directory, {
      onHint: (name) => {
        if (this.#tasks.signal.aborted) return;
        if (name !== undefined) this.#suspectsOf(folder).add(name);
        this.#timer.hint();
      },
      onError: (error) =>
        this.#logger.warn(
          { err: error },
          "a folder of tool manifests is only looked at by the clock",
        ),
    });
  }

  #suspectsOf(folder: FolderState): Set<string> {
    let names = this.#suspects.get(folder);
    if (!names) this.#suspects.set(folder, (names = new Set()));
    return names;
  }

  /** One look at a time; whatever is asked for meanwhile is one more. */
  #lookSoon(): void {
    this.#isLookWanted = true;
    if (this.#looking) return;
    this.#tasks.run("look", (signal) => {
      this.#looking = this.#lookWhileWanted(signal).finally(() => {
        this.#looking = undefined;
        if (this.#isLookWanted) this.#lookSoon();
      });
      return this.#looking;
    });
  }

  async #lookWhileWanted(signal: AbortSignal): Promise<void> {
    while (this.#isLookWanted && !signal.aborted) {
      this.#isLookWanted = false;
      const suspects = this.#suspects;
      this.#suspects = new Map();
      await Promise.all(
        this.#folders.map((folder) => folder.look(suspects.get(folder) ?? new Set())),
      );
      this.#publish();
      await Promise.all(this.#hints.map((hints) => hints.follow()));
    }
    if (!signal.aborted) this.#lookLater();
  }

  #lookLater(): void {
    const held = this.#folders.flatMap(({ recheckAt }) => recheckAt ?? []);
    const dueMs = Math.min(...held.map((time) => time - this.#clock.now()), LOOK_EVERY_MS);
    this.#cancelLook?.();
    this.#cancelLook = this.#clock.setTimer(Math.max(dueMs, 0), () => this.#lookSoon());
  }

  #publish(): void {
    const apps = this.#counted();
    const isSame =
      apps.size === this.#apps.size &&
      [...apps].every(([id, { signature }]) => this.#apps.get(id)?.signature === signature);
    this.#log(apps);
    if (isSame) return;
    this.#apps = apps;
    this.#version += 1;
  }

  /** Which manifest counts for each app, ordered by app id. */
  #counted(): ReadonlyMap<string, { manifest: AppManifest; signature: string }> {
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
  #entries(): readonly (Candidate & { readonly signature: string })[] {
    const [own = [], ...others] = this.#folders.map(({ directory, files }) =>
      [...files.values()].map((state) => entryOf(directory, state)),
    );
    const builtIn = this.#builtIn.map((manifest) => ({
      appId: manifest.appId,
      file: undefined,
      manifest,
      tools: manifest.tools,
      faults: [],
      signature: signatureOf(manifest),
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
      if (this.#told.get(file) === told.get(file)) continue;
      this.#logger.warn({ app: appId, pointer, reason: message }, "a tool manifest is rejected");
    }
    for (const { directory, problem } of this.#folders) {
      if (problem === undefined) continue;
      told.set(directory, problem);
      if (this.#told.get(directory) === problem) continue;
      this.#logger.warn({ reason: problem }, "a folder of tool manifests cannot be read");
    }
    this.#told = told;
  }
}

function entryOf(directory: string, state: FileState): Candidate & { readonly signature: string } {
  const { name, stem, parsed, manifest, signature } = state;
  const { tools, faults } = parsed;
  return { appId: stem, file: join(directory, name), manifest, tools, faults, signature };
}
