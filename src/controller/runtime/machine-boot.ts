import { uptime } from "node:os";
import type { Clock } from "../../base/clock.ts";
import type { EngineHost } from "./port.ts";

/**
 * Returns a function that reads when the engine's machine was booted, in epoch milliseconds; undefined for an engine
 * on another machine.
 */
export function createBootTimeReader(
  { location }: Pick<EngineHost, "location">,
  clock: Clock,
): (() => number) | undefined {
  if (location !== "this-machine") return undefined;
  return () => clock.now() - uptime() * 1_000;
}
