import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Semaphore } from "../../../base/mutex.ts";
import type { BandwidthLimiter } from "./bandwidth-limiter.ts";
import type { RetryLimits } from "./download-backoff.ts";
import type { Hasher } from "./hasher.ts";

/** What all transfers share. */
export interface TransferDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bandwidth: BandwidthLimiter;
  readonly hasher: Hasher;
  readonly writes: Semaphore;
  readonly partsMax: number;
  readonly limits: RetryLimits;
}
