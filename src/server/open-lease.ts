import { hostname } from "node:os";
import { resolve } from "node:path";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { createTimeLimit } from "../base/time-limit.ts";
import type { Config } from "../config/config.ts";
import { EngineLease } from "../controller/lease/engine-lease.ts";
import type { LeaseRuntime } from "../controller/runtime/port.ts";
import type { Store } from "../store/store.ts";

/** The time that the start of Berth waits for the engine to report which process holds the lease. */
const ENGINE_LIMIT_MS = 5_000;

/**
 * Tries to get the lease on the engine. Resolves even if the engine does not answer or another process has the lease.
 * The server then starts without the lease, and writes to the engine when it gets the lease.
 */
export async function openLease(options: {
  readonly config: Pick<Config, "dataDir">;
  readonly store: Pick<Store, "instanceId" | "holderId">;
  readonly runtime: LeaseRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
}): Promise<EngineLease> {
  const { store, config } = options;
  const lease = new EngineLease({
    ...options,
    instance: store.instanceId,
    holderId: store.holderId,
    host: hostname(),
    dataDir: resolve(config.dataDir),
  });
  using bound = createTimeLimit(new AbortController().signal, ENGINE_LIMIT_MS);
  await lease.ensure(bound.signal).catch(() => {});
  return lease;
}
