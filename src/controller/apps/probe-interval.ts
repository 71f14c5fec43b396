import type { EffectiveHealthCheck } from "../../resources/app-defaults.ts";

/**
 * The first interval between probes of a starting container. It is also the longest delay between the opening of a port
 * and the first request.
 */
const STARTUP_MIN_MS = 50;
const STARTUP_MAX_MS = 1_000;
/**
 * A start that takes longer than this counts as slow. A longer interval between probes then adds only a small fraction
 * to the time of the start.
 */
const STEADY_FOR_MS = 5_000;
/** The interval between probes of a slow start, as a part of the time since the start began. */
const LATE_PART = 1 / 20;
/**
 * The value that replaces LATE_PART for a probe that runs a command. The command costs a process in the container and
 * two calls of the engine, so it is run less often.
 */
const LATE_PART_OF_COMMAND = 1 / 2;
/**
 * The minimum interval, multiplied by the number of containers that are starting, so that hundreds of starts leave
 * time for other work.
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
  const lateMs = isSteady ? 0 : watchedMs * (isCommand ? LATE_PART_OF_COMMAND : LATE_PART);
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
