import { expect } from "vitest";
import { openedBy } from "./open-descriptors.ts";
import type { RemoteCompanionHarness } from "./remote-companion-harness.ts";

/** What a daemon has that somebody has to give back. */
export interface Held {
  /** Descriptors of files, pipes and whatever else is no socket. */
  readonly files: number;
  /** Without the connections to the two sides that answer, which may be kept. */
  readonly sockets: number;
  readonly timers: number;
  readonly underWay: number;
  readonly active: unknown;
  readonly pending: unknown;
}

/** Of one provider; what the daemon keeps at most. */
const KEPT_MAX = 8;
/** Less than it takes until something is said to clients that wait, by which it would be seen that they have gone. */
const BACK_MS_MAX = 8_000;

export async function heldBy(desk: RemoteCompanionHarness): Promise<Held> {
  const metrics = await desk.metrics();
  const { files, sockets } = descriptorsOf(desk.companion.ready.pid);
  const { active, pending } = await desk.countQueries();
  return {
    files,
    sockets: sockets - desk.cloudProvider.connections - desk.localProvider.connections,
    timers: metrics.get('nodejs_active_resources{type="Timeout"}') ?? 0,
    underWay: metrics.get("berth_inference_requests_underway") ?? 0,
    active,
    pending,
  };
}

/** Waits until the daemon has no more than it had, and is asked for nothing any more. */
export async function isBackAt(before: Held, desk: RemoteCompanionHarness): Promise<void> {
  const { timers, ...others } = before;
  const now = async () => {
    const { timers: timersNow, ...rest } = await heldBy(desk);
    // The clocks of kept connections, of which there were fewer.
    return { ...rest, timersMore: Math.max(0, timersNow - timers - KEPT_MAX) };
  };
  await expect
    .poll(now, { timeout: BACK_MS_MAX, interval: 50 })
    .toEqual({ ...others, timersMore: 0 });
  for (const side of [desk.cloudProvider, desk.localProvider])
    expect(side.requests.filter(({ state }) => state === "open")).toEqual([]);
  expect(desk.cloudProvider.connections).toBeLessThanOrEqual(KEPT_MAX);
}

function descriptorsOf(pid: number): { readonly files: number; readonly sockets: number } {
  const links = openedBy(pid);
  const sockets = links.filter((link) => link.startsWith("socket:")).length;
  return { files: links.length - sockets, sockets };
}
