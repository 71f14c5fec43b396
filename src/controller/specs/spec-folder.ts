import type { Clock } from "../../base/clock.ts";
import { Debouncer } from "../../base/debouncer.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Store } from "../../store/store.ts";
import type { ControlPlane, SpecsReport } from "../port.ts";
import { FolderSync } from "./folder-sync.ts";
import { FolderWatcher } from "./folder-watcher.ts";
import type { FolderLocation } from "./scan-folder.ts";

/** What no event tells (links deep inside, network file systems) is found by then. */
const RESCAN_MS = 10_000;
/** While the folder is away, or the system gives no more events. */
const RESCAN_WITHOUT_EVENTS_MS = 2000;

export interface SpecFolderOptions {
  readonly folder: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Background work is run here, so that shutdown waits for it. Default: a group of its own. */
  readonly tasks?: TaskGroup;
}

/**
 * The watched folder: what its files declare is applied to the store, and what they stop declaring
 * is pruned. Events of the file system are hints to look; every look is at the whole folder.
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
  /** Files that an event named since the last scan. */
  #suspects = new Set<string>();
  #scanning: Promise<void> = Promise.resolve();
  #isTriggered = false;
  #hasLostEvents = false;
  /** Set by `start`; without it the clock alone drives nothing. */
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
      // The change is known: waiting for quiet once more would only make it late.
      onDelayedHint: (path) => {
        if (path === undefined || !this.#suspects.has(path)) this.#hint(path);
      },
      onError: (error) => this.#handleWatchError(error),
    });
  }

  /**
   * Applies what the folder says, then follows it until `signal` aborts. Resolves after the first
   * scan has been applied; a folder that is not there is waited for, not an error.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#signal = AbortSignal.any([signal, this.#tasks.signal, this.#stop.signal]);
    await this.rescan();
    const unwatch = this.#store.watch(({ type }) => {
      // A name that was taken, or on its way out, may be free now.
      if (type === "deleted" && this.#sync.hasRetries) this.#debouncer.trigger();
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

  /** Lets go what a guard holds. Answers what that is; it is deleted by the scan that follows at once. */
  confirmPrune(): ReturnType<ControlPlane["confirmPrune"]> {
    const confirmed = this.#sync.confirmPrune();
    if (confirmed.length > 0 && this.#isFollowing) this.#trigger();
    return confirmed;
  }

  /** One scan now, after any that is under way. Needs no `start`: a simulation calls only this. */
  rescan(): Promise<void> {
    const scan = this.#scanning.then(() => this.#scan());
    this.#scanning = scan.catch(() => {});
    return scan;
  }

  /** Ends what `start` began, and waits for it. */
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
        "file events are incomplete, looking often",
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

function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
