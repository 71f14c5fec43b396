import { uptime } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { parseDockerHost } from "./docker-address.ts";

/** Tells when the machine that the engine runs on came up, in epoch milliseconds; undefined for an engine elsewhere. */
export function createBootTimeReader(
  dockerHost: string | undefined,
  clock: Clock,
): (() => number) | undefined {
  if (!parseDockerHost(dockerHost).local) return undefined;
  return () => clock.now() - uptime() * 1_000;
}
