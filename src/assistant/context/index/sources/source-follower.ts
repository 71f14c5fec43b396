import { lstatSync, realpathSync } from "node:fs";
import { posix, resolve } from "node:path";
import { getErrorCode } from "../../../../base/errors.ts";
import type { BackgroundTasks } from "../background-tasks.ts";
import type { IndexTiming } from "../index-protocol.ts";
import type { DocumentStore } from "../store/document-store.ts";
import { FolderWatches } from "./folder-watches.ts";
import { ignoreFileNames } from "./ignore-file.ts";
import { isSecretName } from "./secret-detection.ts";
import { SourceRules } from "./source-rules.ts";
import { type IndexChange, syncSource } from "./sync-source.ts";

/** If a burst has more changes than this, a full scan is faster than a scan of each path. */
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
  /**
   * Called when the state of the source has changed, for example from `indexing` to `ready`. If a scan failed, `error`
   * is its error.
   */
  readonly onChange: (error?: unknown) => void;
}

/**
 * Keeps the documents of one source in sync with its folder. Missed events do no harm: each run compares the folder
 * with the index, and full scans happen at the start and periodically.
 *
 * States: indexing -> ready; degraded while the folder is missing or the system has no watches left.
 */
export class SourceFollower {
  readonly source: FollowedSource;
  readonly #dependencies: SourceFollowerDependencies;
  readonly #dirty = new Set<string>();
  #state: "indexing" | "ready" | "degraded" = "indexing";
  #message: string | null = null;
  /** The source with its real path, its rules and its watches; undefined if it cannot be indexed. */
  #resolved: ResolvedSource | undefined;
  #debounce: { readonly timer: NodeJS.Timeout; readonly since: number } | undefined;
  #rescan: NodeJS.Timeout | undefined;
  #isRunning = false;
  #hasEnded = false;

  constructor(source: FollowedSource, dependencies: SourceFollowerDependencies) {
    this.source = source;
    this.#dependencies = dependencies;
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
        this.#finishRun("the folder could not be scanned; Berth retries");
        this.#dependencies.onChange(error);
      }
      if (this.#dirty.size > 0) this.#schedule();
    });
  }

  *#sync(paths: readonly string[]): Generator<void> {
    clearTimeout(this.#rescan);
    const isWhole = paths.includes("");
    const resolved = this.#resolveSource();
    if (typeof resolved === "string") {
      this.#finishRun(resolved);
      return;
    }
    if (isWhole) {
      resolved.rules.clearCache();
      resolved.watches.resetIncomplete();
    }
    // If the source's real path has changed, a scan of single paths is not enough, so the whole source is scanned.
    const needsFullScan = isWhole || resolved !== this.#resolved;
    this.#resolved = resolved;
    const { documents, apply, flush } = this.#dependencies;
    yield* syncSource({ id: this.source.id, root: resolved.root }, needsFullScan ? [""] : paths, {
      documents,
      rules: resolved.rules,
      watches: resolved.watches,
      now: () => Date.now(),
      apply,
      flush,
    });
    const { isIncomplete, size } = resolved.watches;
    this.#finishRun(isIncomplete ? describeWatchShortage(size) : null);
  }

  /** Returns the resolved source, or a message for the user if it cannot be indexed. */
  #resolveSource(): ResolvedSource | string {
    const configured = resolve(this.source.path);
    if (configured.split("/").some((part) => part !== "" && isSecretName(part)))
      return "folders for credentials are never indexed; set another folder";
    let root: string;
    try {
      root = realpathSync(configured);
      if (!lstatSync(root).isDirectory())
        return "the path is not a folder; set the folder that contains it";
    } catch (error) {
      this.#resolved?.watches.unwatchFolder("");
      this.#resolved = undefined;
      const code = getErrorCode(error);
      return code === "ENOENT"
        ? "the folder does not exist; its indexed texts are kept. Restore it, or remove the source"
        : "the folder cannot be read; check its permissions";
    }
    if (root.split("/").some((part) => part !== "" && isSecretName(part)))
      return "folders for credentials are never indexed; set another folder";
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
    `the system refuses further watches (${count} folders of this source are watched), so changes in other folders are ` +
    "found by periodic scans only; raise the sysctl fs.inotify.max_user_watches, or index a smaller folder"
  );
}
