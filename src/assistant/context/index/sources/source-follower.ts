import { lstatSync, realpathSync } from "node:fs";
import { posix, resolve } from "node:path";
import type { BackgroundTasks } from "../background-tasks.ts";
import type { IndexTiming } from "../index-protocol.ts";
import type { DocumentStore } from "../store/document-store.ts";
import { FolderWatches } from "./folder-watches.ts";
import { ignoreFileNames } from "./ignore-file.ts";
import { isSecretName } from "./secret-detection.ts";
import { SourceRules } from "./source-rules.ts";
import { type IndexChange, syncSource } from "./sync-source.ts";

/** More changes than this in one burst: looking at everything is quicker than at each. */
const CHANGES_MAX = 5_000;

export interface FollowedSource {
  readonly id: number;
  readonly name: string;
  readonly path: string;
}

interface ResolvedSource {
  readonly root: string;
  readonly rules: SourceRules;
  readonly watches: FolderWatches;
}

export interface SourceFollowerDependencies {
  readonly documents: DocumentStore;
  readonly background: BackgroundTasks;
  readonly timing: IndexTiming;
  readonly apply: (change: IndexChange) => void;
  readonly flush: () => void;
  /** Its state has changed; `error` where looking through it failed. */
  readonly onChange: (error?: unknown) => void;
}

/**
 * Keeps one source's documents what its folder has. Nothing depends on having seen an event: each run
 * compares the folder with the index, and everything is looked through at the start and now and then.
 *
 * indexing -> ready; degraded where the folder is missing or the system has no watches left, and back.
 */
export class SourceFollower {
  readonly source: FollowedSource;
  readonly #dependencies: SourceFollowerDependencies;
  readonly #dirty = new Set<string>();
  #state: "indexing" | "ready" | "degraded" = "indexing";
  #message: string | null = null;
  /** Where its path leads, and what belongs to that place. */
  #resolved: ResolvedSource | undefined;
  #debounce: { readonly timer: NodeJS.Timeout; readonly since: number } | undefined;
  #rescan: NodeJS.Timeout | undefined;
  #isRunning = false;
  #hasEnded = false;

  constructor(source: FollowedSource, tools: SourceFollowerDependencies) {
    this.source = source;
    this.#dependencies = tools;
  }

  get state(): { state: "indexing" | "ready" | "degraded"; message: string | null } {
    return { state: this.#state, message: this.#message };
  }

  start(): void {
    this.#dirty.add("");
    this.#run();
  }

  stop(): void {
    this.#hasEnded = true;
    clearTimeout(this.#rescan);
    clearTimeout(this.#debounce?.timer);
    this.#resolved?.watches.unwatchFolder("");
  }

  #onPathChanged(path: string): void {
    if (this.#hasEnded) return;
    const name = posix.basename(path);
    if (ignoreFileNames.includes(name)) {
      const folder = posix.dirname(path);
      this.#resolved?.rules.clearCache();
      this.#dirty.add(folder === "." ? "" : folder);
    } else if (name.startsWith(".")) return;
    else this.#dirty.add(path);
    if (this.#dirty.size > CHANGES_MAX) {
      this.#dirty.clear();
      this.#dirty.add("");
    }
    this.#schedule();
  }

  #schedule(): void {
    const { debounceMs, debounceMaxMs } = this.#dependencies.timing;
    const now = performance.now();
    const since = this.#debounce?.since ?? now;
    clearTimeout(this.#debounce?.timer);
    const wait = Math.max(0, Math.min(debounceMs, since + debounceMaxMs - now));
    this.#debounce = { since, timer: setTimeout(() => this.#run(), wait) };
  }

  #run(): void {
    clearTimeout(this.#debounce?.timer);
    this.#debounce = undefined;
    if (this.#isRunning || this.#hasEnded || this.#dirty.size === 0) return;
    this.#isRunning = true;
    const paths = [...this.#dirty];
    this.#dirty.clear();
    this.#dependencies.background.add("work", this.#sync(paths), (error) => {
      this.#isRunning = false;
      if (this.#hasEnded) return;
      if (error !== undefined) {
        this.#finishRun("the folder could not be looked through; it is tried again");
        this.#dependencies.onChange(error);
      }
      if (this.#dirty.size > 0) this.#schedule();
    });
  }

  *#sync(paths: readonly string[]): Generator<void> {
    clearTimeout(this.#rescan);
    const isWhole = paths.includes("");
    const place = this.#resolveSource();
    if (typeof place === "string") {
      this.#finishRun(place);
      return;
    }
    if (isWhole) {
      place.rules.clearCache();
      place.watches.resetIncomplete();
    }
    // After a change of place nothing that was known of single paths counts.
    const whole = isWhole || place !== this.#resolved;
    this.#resolved = place;
    const { documents, apply, flush } = this.#dependencies;
    yield* syncSource({ id: this.source.id, root: place.root }, whole ? [""] : paths, {
      documents,
      rules: place.rules,
      watches: place.watches,
      now: () => Date.now(),
      apply,
      flush,
    });
    this.#finishRun(place.watches.isIncomplete ? describeWatchShortage(place.watches.size) : null);
  }

  /** Where the source is now; a text where it is nowhere, for people. */
  #resolveSource(): ResolvedSource | string {
    const configured = resolve(this.source.path);
    if (configured.split("/").some((part) => part !== "" && isSecretName(part)))
      return "the folder is one for credentials, and these are never indexed; name another one";
    let root: string;
    try {
      root = realpathSync(configured);
      if (!lstatSync(root).isDirectory())
        return "it is not a folder; name the folder that it is in";
    } catch (error) {
      this.#resolved?.watches.unwatchFolder("");
      this.#resolved = undefined;
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      return code === "ENOENT"
        ? "the folder is not there; what was indexed of it is kept. Bring it back, or take the source out"
        : "the folder cannot be read; check its permissions";
    }
    if (root.split("/").some((part) => part !== "" && isSecretName(part)))
      return "the folder is one for credentials, and these are never indexed; name another one";
    if (this.#resolved?.root === root) return this.#resolved;
    this.#resolved?.watches.unwatchFolder("");
    const watches = new FolderWatches(root, { onChange: (path) => this.#onPathChanged(path) });
    return { root, rules: new SourceRules(root), watches };
  }

  #finishRun(message: string | null): void {
    this.#state = message === null ? "ready" : "degraded";
    this.#message = message;
    const { rescanMs, degradedRescanMs } = this.#dependencies.timing;
    clearTimeout(this.#rescan);
    if (!this.#hasEnded)
      this.#rescan = setTimeout(
        () => {
          this.#dirty.add("");
          this.#run();
        },
        message === null ? rescanMs : degradedRescanMs,
      );
    this.#dependencies.onChange();
  }
}

function describeWatchShortage(count: number): string {
  return (
    `the system gives no more watches (this source has ${count} of its folders watched), so the rest is ` +
    "only looked through now and then; raise the sysctl fs.inotify.max_user_watches, or index a smaller folder"
  );
}
