import type { Clock } from "../../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { EffectiveHealthCheck } from "../../resources/app-defaults.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";

/** A container that is coming up is probed this soon, then half as often again each time, up to one second. */
const FIRST_PROBE_MS = 40;
const STARTUP_PROBE_MAX_MS = 1_000;
/** An app without a port and a check is taken as healthy once it has run this long. */
const MIN_RUNNING_MS = 1_000;

interface MonitoredContainer {
  readonly app: string;
  readonly id: string;
  readonly startedAtMs: number;
  /** Since when it is probed with this check, by Berth's own clock: what was before, nobody has seen. */
  watchedSinceMs: number;
  check: EffectiveHealthCheck;
  checkKey: string;
  /** How long a container that was never seen healthy may take before a restart is due. */
  startupDeadlineMs: number;
  healthy: boolean | null;
  everHealthy: boolean;
  failures: number;
  nextMs: number;
  message: string;
  /** What the reconciler was last woken with: that a restart came due is told however quietly it did. */
  told: ContainerHealth;
  cancel: () => void;
}

type ProbeAnswer = { readonly healthy: boolean; readonly message: string };

/** What is known of a container that has answered no probe of its check. */
function createUnprobedState(nowMs: number) {
  const message = "not probed yet";
  return {
    watchedSinceMs: nowMs,
    healthy: null,
    everHealthy: false,
    failures: 0,
    nextMs: FIRST_PROBE_MS,
    message,
    told: { healthy: null, restartDue: false, message },
  };
}

/**
 * Probes running containers beside the reconciler, which is woken when an answer changes. What is
 * known here is lost with the process and found again by the first probes.
 */
export class HealthMonitor {
  readonly #runtime: WorkloadRuntime;
  readonly #clock: Clock;
  readonly #tasks: TaskGroup;
  readonly #onChange: (app: string) => void;
  readonly #targets = new Map<string, MonitoredContainer>();

  constructor(options: {
    runtime: WorkloadRuntime;
    clock: Clock;
    tasks: TaskGroup;
    onChange: (app: string) => void;
  }) {
    this.#runtime = options.runtime;
    this.#clock = options.clock;
    this.#tasks = options.tasks;
    this.#onChange = options.onChange;
  }

  /** Makes the running containers of an App, and only these, the ones that are probed. */
  watch(
    app: string,
    containers: readonly { readonly id: string; readonly startedAtMs: number }[],
    check: EffectiveHealthCheck,
    startupDeadlineMs: number,
  ): void {
    const wanted = new Map(containers.map((container) => [container.id, container]));
    const checkKey = JSON.stringify(check);
    for (const target of this.#targets.values()) {
      if (target.app !== app) continue;
      const container = wanted.get(target.id);
      // Another start of the same container is another life: nothing learnt before counts.
      if (!container || container.startedAtMs !== target.startedAtMs) this.#drop(target);
      // So is another check: what one was answered says nothing of the answers to the other.
      else if (target.checkKey !== checkKey) {
        Object.assign(target, { check, checkKey, ...createUnprobedState(this.#clock.now()) });
        this.#schedule(target, 0);
      }
    }
    for (const { id, startedAtMs } of containers) {
      const known = this.#targets.get(id);
      if (known) {
        known.startupDeadlineMs = startupDeadlineMs;
        continue;
      }
      const target: MonitoredContainer = {
        app,
        id,
        startedAtMs,
        check,
        checkKey,
        startupDeadlineMs: startupDeadlineMs,
        ...createUnprobedState(this.#clock.now()),
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
      message: target.message,
    };
  }

  #restartDue(target: MonitoredContainer): boolean {
    if (target.healthy !== false) return false;
    if (target.everHealthy) return target.failures >= target.check.retries;
    const watchedMs = this.#clock.now() - target.watchedSinceMs;
    return watchedMs > target.check.startPeriodMs + target.startupDeadlineMs;
  }

  #schedule(target: MonitoredContainer, delayMs: number): void {
    target.cancel();
    target.cancel = this.#clock.setTimer(delayMs, () => {
      this.#tasks.run("health probe", (signal) => this.#probe(target, signal));
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
      this.#schedule(target, Math.max(check.intervalMs, STARTUP_PROBE_MAX_MS));
      return;
    }
    const { healthy, message } = answer;
    target.message = message;
    if (healthy) {
      Object.assign(target, {
        healthy: true,
        everHealthy: true,
        failures: 0,
        nextMs: FIRST_PROBE_MS,
      });
      this.#schedule(
        target,
        check.probe.type === "running" ? check.intervalMs * 6 : check.intervalMs,
      );
    } else {
      const isStarting = this.#clock.now() - target.startedAtMs < check.startPeriodMs;
      if (!isStarting) target.failures += 1;
      // One failed probe of a healthy container is not an illness yet.
      if (!target.everHealthy || target.failures >= check.retries) target.healthy = false;
      target.nextMs = Math.min(target.nextMs * 1.5, STARTUP_PROBE_MAX_MS, check.intervalMs);
      this.#schedule(
        target,
        target.everHealthy ? Math.min(check.intervalMs, STARTUP_PROBE_MAX_MS * 2) : target.nextMs,
      );
    }
    const after = this.#healthOf(target);
    const { told } = target;
    if (
      told.healthy !== after.healthy ||
      told.restartDue !== after.restartDue ||
      (told.message !== after.message && !after.healthy)
    ) {
      target.told = after;
      this.#onChange(target.app);
    }
  }

  async #probeOnce(
    target: MonitoredContainer,
    check: EffectiveHealthCheck,
    signal: AbortSignal,
  ): Promise<ProbeAnswer | "engine-away"> {
    if (check.probe.type === "running") {
      // The engine's clock may be another one.
      const ranMs = this.#clock.now() - Math.min(target.startedAtMs, target.watchedSinceMs);
      return ranMs >= MIN_RUNNING_MS
        ? { healthy: true, message: "running" }
        : { healthy: false, message: "running for less than a second" };
    }
    try {
      return await this.#runtime.probe(target.id, check.probe, check.timeoutMs, signal);
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      // Nobody has asked the container, so nothing is known of it.
      if (error instanceof BerthError && error.code === "engine_unreachable") return "engine-away";
      return { healthy: false, message: getErrorMessage(error) };
    }
  }
}
