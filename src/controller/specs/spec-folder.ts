import type { Clock } from "../../base/clock.ts";
import { Debouncer } from "../../base/debouncer.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { waitForAbort } from "../../base/race-with-abort.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Store } from "../../store/store.ts";
import type { ControlPlane, SpecsReport } from "../port.ts";
import { FolderSync, type FolderSyncOptions } from "./folder-sync.ts";
import { FolderWatcher } from "./folder-watcher.ts";
import type { FolderLocation } from "./scan-folder.ts";

/**
 * The interval of scans. They find changes for which no event arrives, such as those behind nested links and on
 * network file systems.
 */
const RESCAN_MS = 10_000;
/** The interval of scans while the folder is missing, or while the system sends no events. */
const RESCAN_WITHOUT_EVENTS_MS = 2000;

export interface SpecFolderOptions extends FolderSyncOptions {
  /**
   * The task group that runs the background work, so that a shutdown waits for it; default: a group that the SpecFolder
   * creates.
   */
  readonly tasks?: TaskGroup;
}

/**
 * The watched folder: applies what its files declare to the store, and prunes what they no longer declare. Events of
 * the file system are only hints; every scan covers the whole folder.
 */
export class SpecFolder implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #store: Store;
  readonly #sync: FolderSync;
  readonly #watcher: FolderWatcher;
  readonly #debouncer: Debouncer;
  readonly #ownTasks: TaskGroup;
  readonly #tasks: TaskGroup;
  readonly #stop = new AbortController();

  #signal: AbortSignal = this.#stop.signal;
  /** Files that an event has named since the last scan. The next scan reads them even if their stamps are unchanged. */
  #suspects = new Set<string>();
  #scanning: Promise<void> = Promise.resolve();
  #isTriggered = false;
  #hasLostEvents = false;
  /** True after `start`; until then no timer runs. */
  #isFollowing = false;
  #location: FolderLocation | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(options: SpecFolderOptions) {
    this.#clock = options.clock;
    this.#store = options.store;
    this.#logger = options.logger.child({ room: "specs" });
    this.#ownTasks = new TaskGroup((error, name) =>
      this.#logger.error({ err: getErrorMessage(error), task: name }, "background task failed"),
    );
    this.#tasks = options.tasks ?? this.#ownTasks;
    this.#sync = new FolderSync({ ...options, logger: this.#logger });
    this.#debouncer = new Debouncer(this.#clock, () => this.#trigger());
    this.#watcher = new FolderWatcher(options.folder, {
      onHint: (path) => this.#hint(path),
      // The debounce for a change of this file is already running. Another hint would only restart the debounce.
      onDelayedHint: (path) => {
        if (path === undefined || !this.#suspects.has(path)) this.#hint(path);
      },
      onError: (error) => this.#handleWatchError(error),
    });
  }

  /**
   * Applies the folder, then follows it until `signal` aborts. Resolves when the first scan has been applied. A missing
   * folder is not an error, because a later scan finds a folder that is created.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#signal = AbortSignal.any([signal, this.#tasks.signal, this.#stop.signal]);
    await this.rescan();
    const unwatch = this.#store.watch(({ type, kind }) => {
      // Refused files are tried again, because a name that was in use, or a domain of an App, may have become
      // available.
      const mayRelease = type === "deleted" || (type === "modified" && kind === "App");
      if (mayRelease && this.#sync.hasRetries) this.#debouncer.trigger();
    });
    this.#tasks.run("specs", async () => {
      try {
        await waitForAbort(this.#signal);
      } finally {
        unwatch();
        this.#debouncer.cancel();
        this.#cancelTimer?.();
        await this.#watcher[Symbol.asyncDispose]();
        await this.#scanning;
      }
    });
    this.#tasks.run("specs watcher", () => this.#follow());
  }

  report(): SpecsReport {
    return this.#sync.report();
  }

  /** Confirms and returns the deletions that wait for the user. A scan, which follows at once, executes them. */
  confirmPrune(): ReturnType<ControlPlane["confirmPrune"]> {
    const confirmed = this.#sync.confirmPrune();
    if (confirmed.length > 0 && this.#isFollowing) this.#trigger();
    return confirmed;
  }

  /**
   * Runs one scan, after a running scan has ended. It does not require `start`; the simulation calls only this method.
   */
  rescan(): Promise<void> {
    const scan = this.#scanning.then(() => this.#scan());
    this.#scanning = scan.catch(() => {});
    return scan;
  }

  /** Stops what `start` has started, and waits for it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#ownTasks[Symbol.asyncDispose]();
    await this.#scanning;
    this.#sync[Symbol.dispose]();
  }

  #hint(path: string | undefined): void {
    if (path !== undefined) this.#suspects.add(path);
    if (!this.#signal.aborted) this.#debouncer.trigger();
  }

  #handleWatchError(error: unknown): void {
    if (!this.#hasLostEvents) {
      this.#logger.warn(
        { err: getErrorMessage(error) },
        "file events are incomplete, scanning more often",
      );
    }
    this.#hasLostEvents = true;
    this.#hint(undefined);
  }

  #trigger(): void {
    if (this.#isTriggered) return;
    this.#isTriggered = true;
    this.#tasks.run("specs scan", async () => {
      try {
        await this.rescan();
        await this.#follow();
      } catch (error) {
        if (isAbortError(error)) return;
        this.#logger.error(
          { err: getErrorMessage(error) },
          "the watched folder could not be followed",
        );
        this.#scheduleRescan(null);
      }
    });
  }

  async #follow(): Promise<void> {
    this.#isFollowing = true;
    await this.#watcher.follow(this.#location);
  }

  async #scan(): Promise<void> {
    this.#signal.throwIfAborted();
    this.#isTriggered = false;
    const suspects = this.#suspects;
    this.#suspects = new Set();
    try {
      const { location: place, recheckAt } = await this.#sync.scan(suspects, this.#signal);
      this.#location = place;
      this.#scheduleRescan(recheckAt);
    } catch (error) {
      for (const path of suspects) this.#suspects.add(path);
      throw error;
    }
  }

  #scheduleRescan(recheckAt: number | null): void {
    this.#cancelTimer?.();
    if (this.#signal.aborted) return;
    const hasEvents = this.#location !== undefined && !this.#hasLostEvents;
    const rescanMs = hasEvents ? RESCAN_MS : RESCAN_WITHOUT_EVENTS_MS;
    const recheckMs = recheckAt === null ? rescanMs : Math.max(0, recheckAt - this.#clock.now());
    this.#cancelTimer = this.#clock.setTimer(Math.min(rescanMs, recheckMs), () => {
      if (this.#isFollowing) this.#trigger();
    });
  }
}
