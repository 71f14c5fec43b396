import type { EffectiveHealthCheck } from "../../resources/app-defaults.ts";

/**
 * The shortest and first interval between probes of a starting container. After the container has opened its port, its
 * first request is delayed by at most the current interval.
 */
const STARTUP_MIN_MS = 50;
const STARTUP_MAX_MS = 1_000;
/**
 * A start that takes longer than this counts as slow. A longer interval between probes then adds only a small fraction
 * to the time of the start.
 */
const STEADY_FOR_MS = 5_000;
/** The interval between probes of a slow start is this fraction of the time since the first probe. */
const SLOW_FRACTION = 1 / 20;
/**
 * For a probe that runs a command, the interval is this fraction of the time since the first probe. A command needs a
 * process in the container and two calls of the engine, so it runs less often than other probes.
 */
const COMMAND_FRACTION = 1 / 2;
/**
 * The minimum interval between probes of a starting container grows by this time for each container that is starting,
 * so that hundreds of starts leave time for other work.
 */
const SHARE_MS = 5;
/**
 * The interval between probes of a version that is being rolled out, so that its failure is noticed well within a
 * second.
 */
const ROLLOUT_MS = 250;
const ROLLOUT_COMMAND_MS = 1_000;

/**
 * Returns the delay until the next probe of a container that was never healthy. `watchedMs` is the time since its
 * first probe, and `starting` is the number of such containers.
 */
export function getStartupInterval(
  { probe, intervalMs }: EffectiveHealthCheck,
  { watchedMs, starting }: { readonly watchedMs: number; readonly starting: number },
): number {
  const isCommand = probe.type === "command";
  const isSteady = !isCommand && watchedMs < STEADY_FOR_MS;
  const lateMs = isSteady ? 0 : watchedMs * (isCommand ? COMMAND_FRACTION : SLOW_FRACTION);
  return Math.min(
    Math.max(STARTUP_MIN_MS, lateMs, starting * SHARE_MS),
    STARTUP_MAX_MS,
    intervalMs,
  );
}

/** Returns the delay until the next probe of a healthy container. */
export function getHealthyInterval(
  { probe, intervalMs }: EffectiveHealthCheck,
  isRollingOut: boolean,
): number {
  if (probe.type === "running") return intervalMs * 6;
  if (!isRollingOut) return intervalMs;
  return Math.min(intervalMs, probe.type === "command" ? ROLLOUT_COMMAND_MS : ROLLOUT_MS);
}
