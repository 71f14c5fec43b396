import { expect } from "vitest";
import { openedBy } from "./open-descriptors.ts";
import type { RemoteCompanionHarness } from "./remote-companion-harness.ts";

/** The resources of a daemon that must be released when clients disconnect. */
export interface DaemonResources {
  /** The number of open descriptors that are not sockets, such as those of files and pipes. */
  readonly files: number;
  /** The number of sockets, except connections to the harness's two providers, which the daemon may keep open. */
  readonly sockets: number;
  readonly timers: number;
  readonly runningRequests: number;
  readonly active: unknown;
  readonly pending: unknown;
}

/** The maximum number of connections that the daemon keeps open to one provider. */
const KEPT_CONNECTIONS_MAX = 8;
/**
 * The longest wait for the release of the resources, in milliseconds. It is shorter than the keep-alive interval,
 * because sending keep-alive data would reveal a closed connection that the daemon has not noticed.
 */
const WAIT_MS_MAX = 8_000;

export async function readDaemonResources(
  harness: RemoteCompanionHarness,
): Promise<DaemonResources> {
  const metrics = await harness.metrics();
  const { files, sockets } = descriptorsOf(harness.companion.ready.pid);
  const { active, pending } = await harness.countQueries();
  return {
    files,
    sockets: sockets - harness.cloudProvider.connections - harness.localProvider.connections,
    timers: metrics.get('nodejs_active_resources{type="Timeout"}') ?? 0,
    runningRequests: metrics.get("berth_inference_requests_underway") ?? 0,
    active,
    pending,
  };
}

/** Waits until the daemon holds no more resources than `before` and no request is pending. */
export async function waitForResources(
  before: DaemonResources,
  harness: RemoteCompanionHarness,
): Promise<void> {
  const { timers, ...others } = before;
  const now = async () => {
    const { timers: timersNow, ...rest } = await readDaemonResources(harness);
    // Each idle connection that the daemon keeps open has a timer, so up to KEPT_CONNECTIONS_MAX additional timers are
    // not a leak.
    return { ...rest, extraTimers: Math.max(0, timersNow - timers - KEPT_CONNECTIONS_MAX) };
  };
  await expect
    .poll(now, { timeout: WAIT_MS_MAX, interval: 50 })
    .toEqual({ ...others, extraTimers: 0 });
  for (const side of [harness.cloudProvider, harness.localProvider])
    expect(side.requests.filter(({ state }) => state === "open")).toEqual([]);
  expect(harness.cloudProvider.connections).toBeLessThanOrEqual(KEPT_CONNECTIONS_MAX);
}

function descriptorsOf(pid: number): { readonly files: number; readonly sockets: number } {
  const links = openedBy(pid);
  const sockets = links.filter((link) => link.startsWith("socket:")).length;
  return { files: links.length - sockets, sockets };
}
