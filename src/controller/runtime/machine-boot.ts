import { uptime } from "node:os";
import type { Clock } from "../../base/clock.ts";
import type { EngineHost } from "../engine-host.ts";

/**
 * Returns a function that returns the boot time of the engine's machine, in epoch milliseconds. If the engine is on
 * another machine, returns undefined instead of a function.
 */
export function createBootTimeReader(
  { location }: Pick<EngineHost, "location">,
  clock: Clock,
): (() => number) | undefined {
  if (location !== "this-machine") return undefined;
  return () => clock.now() - uptime() * 1_000;
}
