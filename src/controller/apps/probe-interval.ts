import type { EffectiveHealthCheck } from "../../resources/app-defaults.ts";

/**
 * The first interval between probes of a starting container, which is also the shortest. After the container has
 * opened its port, its first request is delayed by at most the current interval.
 */
const STARTUP_MIN_MS = 20;
/** The shortest interval of a probe that runs a command. */
const COMMAND_MIN_MS = 50;
const STARTUP_MAX_MS = 1_000;
/**
 * The interval between probes is this fraction of the time since the first probe, so that the interval adds only a
 * small fraction to the time of a slow start.
 */
const SLOW_FRACTION = 1 / 80;
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
  const [minMs, fraction] = isCommand
    ? [COMMAND_MIN_MS, COMMAND_FRACTION]
    : [STARTUP_MIN_MS, SLOW_FRACTION];
  return Math.min(
    Math.max(minMs, watchedMs * fraction, starting * SHARE_MS),
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
