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
import { Wakeup } from "./wakeup.ts";

/** A person may log in later, and a bus may come back: to look for one costs a connection to a socket. */
const BUS_POLL_MS = 15_000;
/** How soon a bus is asked again that did not answer, or that has yet to see that a process has gone. */
const BUS_RETRY_MS = 1_000;
/** What hinders it is mostly there to stay, such as a package that is missing, until a person does something. */
const RESTART_DELAY_MAX_MS = 5 * 60_000;
/** As for the assistant: `berth up` ends within five seconds. */
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
 * Sees to it that the person has a companion wherever there is a session bus. Goes by what the bus says at each
 * look, in this order:
 *
 * - Somebody else has its names: that one is used, and left alone.
 * - It is installed: the bus is asked to start it, once. Whether it runs is the bus's and systemd's matter then, as
 *   it is where one that is installed ends: a person may have ended it.
 * - Otherwise it is started as a child, and started again where it ends. It makes way where another is installed,
 *   and is started anew where the assistant answers elsewhere.
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
    message: "the session bus is being looked for",
  };
  #upstream: string | undefined;
  #child: SupervisedChild | undefined;
  /** Of a child that has ended, whose names the bus may hold for a moment more. */
  #endedPid: number | undefined;
  /** Whether the one that is installed has been there, on this bus. */
  #isManagedByBus = false;
  #startNotBefore = 0;
  /** What has been said already, and need not be said again at each try. */
  #reportedFailure: string | undefined;

  constructor(options: CompanionSupervisorOptions) {
    this.#options = options;
    this.#tasks = new TaskGroup((error) =>
      options.logger.error({ err: error }, "the companion is not looked after any more"),
    );
  }

  report(): CompanionReport {
    return this.#report;
  }

  start(): void {
    this.#tasks.run("companion", (signal) => this.#run(signal));
  }

  /** Where the system assistant answers now; null: nowhere, for the time being. */
  setUpstream(url: string | null): void {
    if (url === null || url === this.#upstream) return;
    this.#upstream = url;
    this.#wakeup.notify();
  }

  /** Ends what is ours; what others have started goes on. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    await this.#endChild();
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#superviseOnBus(signal);
      // It ends by itself when its bus does, but may hang.
      await this.#endChild();
      this.#updateReport({
        state: "no_bus",
        url: null,
        pid: null,
        message: "there is no session bus of this user: a companion belongs to a person's session",
      });
      await delay(this.#options.clock, BUS_POLL_MS, signal);
    }
  }

  /** While there is a bus. */
  async #superviseOnBus(signal: AbortSignal): Promise<void> {
    const bus = await this.#options.openBus(() => this.#wakeup.notify(), signal);
    if (!bus) return;
    await using _ = bus;
    this.#isManagedByBus = false;
    this.#startNotBefore = 0;
    this.#backoff.reset();
    for (;;) {
      // Before the look, so that nothing that happens meanwhile is missed.
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

  /** Looks, and does what is due. Resolves to when to look again at the latest; undefined: when the bell rings. */
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
        message: "it is installed, and does not run: whoever calls it on the session bus starts it",
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
        ? "it is installed: the session bus and systemd look after it"
        : "somebody else started it: Berth leaves it alone",
    });
  }

  async #activate(bus: CompanionBus, signal: AbortSignal): Promise<number> {
    this.#updateReport({
      state: "starting",
      url: null,
      pid: null,
      starts: this.#report.starts + 1,
      message: "it is installed, and the session bus is starting it",
    });
    try {
      await bus.start(signal);
      this.#isManagedByBus = true;
    } catch (error) {
      if (!(error instanceof BusCallError) || bus.isLost) throw error;
      this.#recordFailure(
        `the session bus could not start the one that is installed: ${error.message}`,
      );
    }
    return 0;
  }

  #startChild(): undefined {
    const { clock, startChild } = this.#options;
    const upstream = this.#upstream;
    if (upstream === undefined) {
      const message = "it waits for the assistant, whose models it uses";
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
          ? "it is being started"
          : `${this.#reportedFailure}; it is being started again`,
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
      message: `${reason}; it is started again after ${waitMs / 1000} s`,
    });
  }

  #updateReport(to: Partial<CompanionReport>): void {
    const before = this.#report;
    this.#report = { ...before, ...to };
    const { state, url, pid, message } = this.#report;
    if (state === before.state && url === before.url) return;
    const level = state === "starting" || state === "waiting" ? "debug" : "info";
    // A server has none, which is nothing to tell.
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
