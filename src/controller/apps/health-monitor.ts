import type { Clock } from "../../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { EffectiveHealthCheck } from "../../resources/app-defaults.ts";
import type { ProbeResult, WorkloadRuntime } from "../runtime/port.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { getHealthyInterval, getStartupInterval } from "./probe-interval.ts";

/** The delay between the first failed probe of a healthy container and its next probe. */
const RECHECK_MS = 2_000;
/** The delay between probes while the engine cannot be reached. */
const ENGINE_AWAY_MS = 1_000;
/** The delay between a failed probe of a version that is being rolled out and its next probe. */
const ROLLOUT_RECHECK_MS = 100;
/** The number of successive connections without an answer after which Berth assumes that a port does not use HTTP. */
const SILENT_PROBES_MAX = 3;
/**
 * The time after the first probe of a container in which failed probes are not reported, if the container was
 * never healthy. Most containers become healthy within this time, and a run of the reconciler would only delay
 * their start.
 */
const STARTUP_GRACE_MS = 1_000;
/** A container of an app that has neither a port nor a health check counts as healthy when it has run this long. */
const MIN_RUNNING_MS = 1_000;

export interface WatchedContainer {
  readonly id: string;
  readonly startedAtMs: number;
  /**
   * True if the container's version is being rolled out: the version does not receive the App's requests yet, or is in
   * its observation window.
   */
  readonly isRollingOut: boolean;
}

interface MonitoredContainer {
  readonly app: string;
  readonly id: string;
  readonly startedAtMs: number;
  isRollingOut: boolean;
  /** The number of consecutive HTTP probes without an answer; `isMute` is derived from this number. */
  silentProbes: number;
  isMute: boolean;
  /** The time since which Berth has probed the container with this check, by Berth's own clock. */
  watchedSinceMs: number;
  check: EffectiveHealthCheck;
  checkKey: string;
  /**
   * The time in milliseconds that a container has to become healthy for the first time. A container that exceeds it is
   * restarted.
   */
  startupDeadlineMs: number;
  healthy: boolean | null;
  everHealthy: boolean;
  failures: number;
  message: string;
  /** The health that was last reported to the reconciler. */
  reported: ContainerHealth;
  cancel: () => void;
}

export interface HealthMonitorOptions {
  readonly runtime: WorkloadRuntime;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  /** Called with the App whose health has changed. */
  readonly onChange: (app: string) => void;
}

type ProbeAnswer = { readonly healthy: boolean; readonly message: string };

/** Returns the state of a container that has not answered a probe of its health check yet. */
function createUnprobedState(nowMs: number) {
  const message = "not probed yet";
  return {
    watchedSinceMs: nowMs,
    healthy: null,
    everHealthy: false,
    failures: 0,
    silentProbes: 0,
    isMute: false,
    message,
    reported: { healthy: null, restartDue: false, message },
  };
}

/**
 * Probes running containers concurrently with the reconciler, and wakes the reconciler when the health changes. The
 * results are kept in memory only: after a restart of Berth the first probes restore them.
 */
export class HealthMonitor {
  readonly #options: HealthMonitorOptions;
  readonly #targets = new Map<string, MonitoredContainer>();

  constructor(options: HealthMonitorOptions) {
    this.#options = options;
  }

  /** Probes exactly the given containers of the App from now on. */
  watch(
    app: string,
    containers: readonly WatchedContainer[],
    check: EffectiveHealthCheck,
    startupDeadlineMs: number,
  ): void {
    const wanted = new Map(containers.map((container) => [container.id, container]));
    // A change of `rolloutProbe` keeps the results of the health check: a new domain changes this probe, but does not
    // make a running container unhealthy.
    const checkKey = JSON.stringify({ ...check, rolloutProbe: undefined });
    for (const target of this.#targets.values()) {
      if (target.app !== app) continue;
      const container = wanted.get(target.id);
      // If the container was started again, the results of its earlier start are dropped.
      if (!container || container.startedAtMs !== target.startedAtMs) this.#drop(target);
      // If the health check of the App has changed, the results of the old check are dropped.
      else if (target.checkKey !== checkKey) {
        Object.assign(target, {
          check,
          checkKey,
          ...createUnprobedState(this.#options.clock.now()),
        });
        this.#schedule(target, 0);
      }
    }
    for (const { id, startedAtMs, isRollingOut } of containers) {
      const known = this.#targets.get(id);
      if (known) {
        if (isRollingOut && !known.isRollingOut) this.#schedule(known, 0);
        Object.assign(known, { check, startupDeadlineMs, isRollingOut });
        continue;
      }
      const target: MonitoredContainer = {
        app,
        id,
        startedAtMs,
        isRollingOut,
        check,
        checkKey,
        startupDeadlineMs,
        ...createUnprobedState(this.#options.clock.now()),
        cancel: () => {},
      };
      this.#targets.set(id, target);
      this.#schedule(target, 0);
    }
  }

  forget(app: string): void {
    for (const target of this.#targets.values()) if (target.app === app) this.#drop(target);
  }

  health(id: string): ContainerHealth | undefined {
    const target = this.#targets.get(id);
    return target && this.#healthOf(target);
  }

  #healthOf(target: MonitoredContainer): ContainerHealth {
    return {
      healthy: target.healthy,
      restartDue: this.#restartDue(target),
      isSuspect: target.healthy === true && target.failures > 0,
      message: target.message,
    };
  }

  #restartDue(target: MonitoredContainer): boolean {
    if (target.healthy !== false) return false;
    if (target.everHealthy) return target.failures >= target.check.retries;
    const watchedMs = this.#options.clock.now() - target.watchedSinceMs;
    return watchedMs > target.check.startPeriodMs + target.startupDeadlineMs;
  }

  #intervalAfterFailure({ check, everHealthy, isRollingOut, watchedSinceMs }: MonitoredContainer) {
    if (everHealthy)
      return Math.min(check.intervalMs, isRollingOut ? ROLLOUT_RECHECK_MS : RECHECK_MS);
    const starting = [...this.#targets.values()].filter((target) => !target.everHealthy).length;
    const watchedMs = this.#options.clock.now() - watchedSinceMs;
    return getStartupInterval(check, { watchedMs, starting });
  }

  #schedule(target: MonitoredContainer, delayMs: number): void {
    target.cancel();
    target.cancel = this.#options.clock.setTimer(delayMs, () => {
      this.#options.tasks.run("health probe", (signal) => this.#probe(target, signal));
    });
  }

  #drop(target: MonitoredContainer): void {
    target.cancel();
    this.#targets.delete(target.id);
  }

  async #probe(target: MonitoredContainer, signal: AbortSignal): Promise<void> {
    const { check, checkKey } = target;
    const answer = await this.#probeOnce(target, check, signal);
    if (this.#targets.get(target.id) !== target || target.checkKey !== checkKey) return;
    if (answer === "engine-away") {
      this.#schedule(target, Math.max(check.intervalMs, ENGINE_AWAY_MS));
      return;
    }
    const { healthy, message } = answer;
    target.message = message;
    if (healthy) {
      Object.assign(target, { healthy: true, everHealthy: true, failures: 0 });
      this.#schedule(target, getHealthyInterval(check, target.isRollingOut));
    } else {
      const isStarting = this.#options.clock.now() - target.startedAtMs < check.startPeriodMs;
      if (!isStarting) target.failures += 1;
      // A healthy container becomes unhealthy only after `retries` failures in a row.
      if (!target.everHealthy || target.failures >= check.retries) target.healthy = false;
      this.#schedule(target, this.#intervalAfterFailure(target));
    }
    const after = this.#healthOf(target);
    const { reported } = target;
    const watchedMs = this.#options.clock.now() - target.watchedSinceMs;
    if (!target.everHealthy && !after.restartDue && watchedMs < STARTUP_GRACE_MS) return;
    if (
      reported.healthy !== after.healthy ||
      reported.restartDue !== after.restartDue ||
      (reported.message !== after.message && !after.healthy)
    ) {
      target.reported = after;
      this.#options.onChange(target.app);
    }
  }

  async #probeOnce(
    target: MonitoredContainer,
    check: EffectiveHealthCheck,
    signal: AbortSignal,
  ): Promise<ProbeAnswer | "engine-away"> {
    if (check.probe.type === "running") {
      // Berth's own clock is used, because the engine may run on another machine with another clock.
      const ranMs = this.#options.clock.now() - Math.min(target.startedAtMs, target.watchedSinceMs);
      return ranMs >= MIN_RUNNING_MS
        ? { healthy: true, message: "running" }
        : { healthy: false, message: "the container has run for less than a second" };
    }
    const { isRollingOut, isMute } = target;
    const probe = isRollingOut && !isMute ? (check.rolloutProbe ?? check.probe) : check.probe;
    try {
      const result = await this.#options.runtime.probe(target.id, probe, check.timeoutMs, signal);
      return toleratesSilence(target, result)
        ? {
            healthy: true,
            message: "the port accepts connections, but does not answer a GET request",
          }
        : result;
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      // The probe has not reached the container, so its health is unknown.
      if (error instanceof BerthError && error.code === "engine_unreachable") return "engine-away";
      return { healthy: false, message: getErrorMessage(error) };
    }
  }
}

/**
 * Counts successive HTTP probes without an answer. Returns true if the probe was not answered and the count shows that
 * the port does not use HTTP, so that the missing answer does not count as a failure.
 */
function toleratesSilence(target: MonitoredContainer, { isSilent = false }: ProbeResult): boolean {
  target.silentProbes = isSilent ? target.silentProbes + 1 : 0;
  if (!target.everHealthy && target.silentProbes >= SILENT_PROBES_MAX) target.isMute = true;
  return isSilent && target.isMute;
}
