import { uptime } from "node:os";
import type { Clock } from "../../base/clock.ts";
import type { EngineHost } from "./port.ts";

/** Returns a reader of the boot time of the engine's machine, in epoch milliseconds; undefined for an engine elsewhere. */
export function createBootTimeReader(
  { location }: Pick<EngineHost, "location">,
  clock: Clock,
): (() => number) | undefined {
  if (location !== "this-machine") return undefined;
  return () => clock.now() - uptime() * 1_000;
}
