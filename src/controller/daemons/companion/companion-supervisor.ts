import { type Clock, delay } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import { BusCallError } from "../../../dbus/port.ts";
import { RestartBackoff } from "../restart-backoff.ts";
import type {
  CompanionBus,
  CompanionChild,
  CompanionDaemon,
  CompanionObservation,
  CompanionReport,
  OpenCompanionBus,
  StartCompanion,
} from "./port.ts";

/**
 * The interval of checks for a session bus, which appears when the user logs in. A check costs one connection to a
 * socket.
 */
const BUS_POLL_MS = 15_000;
/**
 * The delay before another request to a bus that did not answer, or that has not yet noticed that the companion has
 * ended.
 */
const BUS_RETRY_MS = 1_000;
/**
 * The longest restart delay. Most causes of a failed start, such as a missing package, need an action of the user, so
 * that attempts at shorter intervals would fail, too.
 */
const RESTART_DELAY_MAX_MS = 5 * 60_000;
/**
 * The time between SIGTERM and SIGKILL. It is as short as for the assistant, because `berth up` must end within five
 * seconds.
 */
const GRACE_MS = 4_000;

export interface CompanionSupervisorOptions {
  readonly openBus: OpenCompanionBus;
  readonly startChild: StartCompanion;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface SupervisedChild {
  readonly process: CompanionChild;
  readonly upstream: string;
  upSince: number | undefined;
  endReason: string | undefined;
}

/**
 * Provides a companion for the user on every session bus. It decides by the state of the bus, in this order:
 * - If another process owns the companion's names, that process is used, and never ended.
 * - If the companion is installed, the bus is asked once to start it. From then on the bus and systemd are
 *   responsible for it. Berth does not start it again when it ends, because the user may have ended it.
 * - Otherwise Berth starts the companion as a child process, and restarts it when it ends. The child is ended when
 *   the companion gets installed, and restarted when the URL of the assistant changes.
 */
export class CompanionSupervisor implements CompanionDaemon, AsyncDisposable {
  readonly #options: CompanionSupervisorOptions;
  readonly #tasks: TaskGroup;
  readonly #wakeup = new Wakeup();
  readonly #backoff = new RestartBackoff({ maxMs: RESTART_DELAY_MAX_MS });
  #report: CompanionReport = {
    state: "starting",
    url: null,
    pid: null,
    starts: 0,
    message: "connecting to the session bus",
  };
  #upstream: string | undefined;
  #child: SupervisedChild | undefined;
  /**
   * The process id of a child that has ended. The bus may still report the child as the owner of the names for a
   * moment.
   */
  #endedPid: number | undefined;
  /**
   * True after a companion has owned its bus names on the current session bus, or the bus has started it. Berth then
   * leaves the start of an installed companion to the bus.
   */
  #isManagedByBus = false;
  #startNotBefore = 0;
  /** The failure that was logged last, so that it is not logged again at each try. */
  #reportedFailure: string | undefined;

  constructor(options: CompanionSupervisorOptions) {
    this.#options = options;
    this.#tasks = new TaskGroup((error) =>
      options.logger.error({ err: error }, "the supervisor of the companion has failed"),
    );
  }

  report(): CompanionReport {
    return this.#report;
  }

  start(): void {
    this.#tasks.run("companion", (signal) => this.#run(signal));
  }

  /** Sets the URL of the system assistant; null means that it does not answer now. */
  setUpstream(url: string | null): void {
    if (url === null || url === this.#upstream) return;
    this.#upstream = url;
    this.#wakeup.notify();
  }

  /** Ends the companion that this Berth has started. A companion that another program started keeps running. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    await this.#endChild();
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#superviseOnBus(signal);
      // The child normally exits when its bus ends. A child that hangs is ended here.
      await this.#endChild();
      this.#updateReport({
        state: "no_bus",
        url: null,
        pid: null,
        message: "there is no session bus of this user: a companion belongs to a user's session",
      });
      await delay(this.#options.clock, BUS_POLL_MS, signal);
    }
  }

  /** Supervises the companion until the bus is lost. */
  async #superviseOnBus(signal: AbortSignal): Promise<void> {
    const bus = await this.#options.openBus(() => this.#wakeup.notify(), signal);
    if (!bus) return;
    await using _ = bus;
    this.#isManagedByBus = false;
    this.#startNotBefore = 0;
    this.#backoff.reset();
    for (;;) {
      // The wakeup is requested before the bus is observed, so that a change of the companion during the observation is
      // not missed.
      const woken = this.#wakeup.wait();
      let waitMs: number | undefined;
      try {
        waitMs = await this.#reconcile(bus, signal);
      } catch (error) {
        if (!(error instanceof BusCallError)) throw error;
        if (bus.isLost) return;
        waitMs = BUS_RETRY_MS;
      }
      await this.#wait(woken, waitMs, signal);
    }
  }

  /**
   * Observes the bus and takes the necessary action. Resolves to the milliseconds until the next observation;
   * undefined means that only a wakeup triggers it.
   */
  async #reconcile(bus: CompanionBus, signal: AbortSignal): Promise<number | undefined> {
    const observation = await bus.observe(signal);
    const child = this.#child;
    if (child && child.endReason === undefined) {
      if (!observation.isInstalled && child.upstream === this.#upstream) return undefined;
      await this.#endChild();
      return 0;
    }
    this.#child = undefined;
    const { owner, isInstalled } = observation;
    if (owner && owner.pid !== this.#endedPid) {
      this.#recordOwner(owner, isInstalled);
      return undefined;
    }
    if (child?.endReason !== undefined) this.#recordFailure(child.endReason, child.upSince);
    if (owner) return BUS_RETRY_MS;
    this.#endedPid = undefined;
    if (isInstalled && this.#isManagedByBus) {
      this.#updateReport({
        state: "activated",
        url: null,
        pid: null,
        message:
          "the companion is installed and does not run; the session bus starts it for the first caller",
      });
      return undefined;
    }
    const waitMs = this.#startNotBefore - this.#options.clock.now();
    if (waitMs > 0) return waitMs;
    return isInstalled ? this.#activate(bus, signal) : this.#startChild();
  }

  #recordOwner(owner: NonNullable<CompanionObservation["owner"]>, isInstalled: boolean): void {
    this.#isManagedByBus = true;
    this.#startNotBefore = 0;
    this.#backoff.reset();
    this.#updateReport({
      state: isInstalled ? "activated" : "foreign",
      url: owner.url,
      pid: owner.pid,
      message: isInstalled
        ? "the companion is installed; the session bus and systemd run it"
        : "another process started the companion: Berth uses it, and does not end it",
    });
  }

  async #activate(bus: CompanionBus, signal: AbortSignal): Promise<number> {
    this.#updateReport({
      state: "starting",
      url: null,
      pid: null,
      starts: this.#report.starts + 1,
      message: "the companion is installed, and the session bus is starting it",
    });
    try {
      await bus.start(signal);
      this.#isManagedByBus = true;
    } catch (error) {
      if (!(error instanceof BusCallError) || bus.isLost) throw error;
      this.#recordFailure(
        `the session bus could not start the installed companion: ${error.message}`,
      );
    }
    return 0;
  }

  #startChild(): undefined {
    const { clock, startChild } = this.#options;
    const upstream = this.#upstream;
    if (upstream === undefined) {
      const message = "the companion waits for the assistant, whose models it uses";
      this.#updateReport({ state: "starting", url: null, pid: null, message });
      return;
    }
    const process = startChild({
      upstream,
      onReady: (url) => {
        if (this.#child !== child) return;
        child.upSince = clock.now();
        this.#reportedFailure = undefined;
        this.#updateReport({ state: "up", url, pid: process.pid ?? null, message: null });
      },
    });
    const child: SupervisedChild = { process, upstream, upSince: undefined, endReason: undefined };
    this.#child = child;
    this.#endedPid = process.pid;
    void this.#awaitEnd(child);
    this.#updateReport({
      state: "starting",
      url: null,
      pid: process.pid ?? null,
      starts: this.#report.starts + 1,
      message:
        this.#reportedFailure === undefined
          ? "the companion is being started"
          : `${this.#reportedFailure}; the companion is being started again`,
    });
  }

  async #awaitEnd(child: SupervisedChild): Promise<void> {
    child.endReason = await child.process.ended;
    this.#wakeup.notify();
  }

  async #endChild(): Promise<void> {
    await this.#child?.process.end(GRACE_MS);
    this.#child = undefined;
  }

  #recordFailure(reason: string, upSince?: number): void {
    const { clock, logger } = this.#options;
    const now = clock.now();
    const waitMs = this.#backoff.nextDelayMs(upSince === undefined ? 0 : now - upSince);
    this.#startNotBefore = now + waitMs;
    const isNew = this.#reportedFailure !== reason;
    this.#reportedFailure = reason;
    logger[isNew ? "warn" : "debug"]({ reason, retryInMs: waitMs }, "the companion is not up");
    this.#updateReport({
      state: "waiting",
      url: null,
      pid: null,
      message: `${reason}; the next start is in ${waitMs / 1000} s`,
    });
  }

  #updateReport(to: Partial<CompanionReport>): void {
    const before = this.#report;
    this.#report = { ...before, ...to };
    const { state, url, pid, message } = this.#report;
    if (state === before.state && url === before.url) return;
    const level = state === "starting" || state === "waiting" ? "debug" : "info";
    // Servers usually have no session bus, so its absence is logged only at the debug level.
    const isUsual = state === "no_bus" && before.state === "starting";
    this.#options.logger[isUsual ? "debug" : level](
      { state, url, pid, message },
      "the companion's state changed",
    );
  }

  async #wait(
    woken: Promise<void>,
    waitMs: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (waitMs === undefined) return raceWithAbort(woken, signal);
    const over = new AbortController();
    try {
      const late = delay(this.#options.clock, waitMs, over.signal);
      await raceWithAbort(Promise.race([woken, late]), signal);
    } finally {
      over.abort();
    }
  }
}

/** A signal that wakes one waiter; any number of notifications before the wake-up count as one. */
class Wakeup {
  #wake: () => void = () => {};

  /**
   * Resolves at the next `notify`. Only one caller may wait at a time: a second call replaces the first, whose promise
   * then never resolves.
   */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  notify(): void {
    this.#wake();
  }
}
