import type { Clock } from "../../base/clock.ts";
import { isAbort, messageOf } from "../../base/errors.ts";
import { HintTimer } from "../../base/hint-timer.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { Store } from "../../store/store.ts";
import type { ControlPlane, SpecsReport } from "../port.ts";
import { FolderSync } from "./folder-sync.ts";
import type { FolderPlace } from "./scan.ts";
import { FolderWatcher } from "./watcher.ts";

/** What no event tells (links deep inside, network file systems) is found by then. */
const RESCAN_MS = 10_000;
/** While the folder is away, or the system gives no more events. */
const RESCAN_BLIND_MS = 2000;

export interface SpecFolderParts {
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
  readonly #hints: HintTimer;
  readonly #ownTasks: TaskGroup;
  readonly #tasks: TaskGroup;
  readonly #stop = new AbortController();

  #signal: AbortSignal = this.#stop.signal;
  /** Files that an event named since the last scan. */
  #suspects = new Set<string>();
  #scanning: Promise<void> = Promise.resolve();
  #isTriggered = false;
  #isBlind = false;
  /** Set by `start`; without it the clock alone drives nothing. */
  #isFollowing = false;
  #place: FolderPlace | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(parts: SpecFolderParts) {
    this.#clock = parts.clock;
    this.#store = parts.store;
    this.#logger = parts.logger.child({ room: "specs" });
    this.#ownTasks = new TaskGroup((error, name) =>
      this.#logger.error({ err: messageOf(error), task: name }, "background task failed"),
    );
    this.#tasks = parts.tasks ?? this.#ownTasks;
    this.#sync = new FolderSync({ ...parts, logger: this.#logger });
    this.#hints = new HintTimer(this.#clock, () => this.#trigger());
    this.#watcher = new FolderWatcher(parts.folder, {
      onHint: (path) => this.#hint(path),
      // The change is known: waiting for quiet once more would only make it late.
      onEcho: (path) => {
        if (path === undefined || !this.#suspects.has(path)) this.#hint(path);
      },
      onError: (error) => this.#goBlind(error),
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
      if (type === "deleted" && this.#sync.isWaiting) this.#hints.hint();
    });
    this.#tasks.run("specs", async () => {
      try {
        await aborted(this.#signal);
      } finally {
        unwatch();
        this.#hints.stop();
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
    if (!this.#signal.aborted) this.#hints.hint();
  }

  #goBlind(error: unknown): void {
    if (!this.#isBlind) {
      this.#logger.warn({ err: messageOf(error) }, "file events are incomplete, looking often");
    }
    this.#isBlind = true;
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
        if (isAbort(error)) return;
        this.#logger.error({ err: messageOf(error) }, "the watched folder could not be followed");
        this.#wait(null);
      }
    });
  }

  async #follow(): Promise<void> {
    this.#isFollowing = true;
    await this.#watcher.follow(this.#place);
  }

  async #scan(): Promise<void> {
    this.#signal.throwIfAborted();
    this.#isTriggered = false;
    const suspects = this.#suspects;
    this.#suspects = new Set();
    try {
      const { place, recheckAt } = await this.#sync.scan(suspects, this.#signal);
      this.#place = place;
      this.#wait(recheckAt);
    } catch (error) {
      for (const path of suspects) this.#suspects.add(path);
      throw error;
    }
  }

  #wait(recheckAt: number | null): void {
    this.#cancelTimer?.();
    if (this.#signal.aborted) return;
    const isSeeing = this.#place !== undefined && !this.#isBlind;
    const rescanMs = isSeeing ? RESCAN_MS : RESCAN_BLIND_MS;
    const recheckMs = recheckAt === null ? rescanMs : Math.max(0, recheckAt - this.#clock.now());
    this.#cancelTimer = this.#clock.setTimer(Math.min(rescanMs, recheckMs), () => {
      if (this.#isFollowing) this.#trigger();
    });
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
