import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { RetryLimits } from "./backoff.ts";
import type { Bandwidth } from "./bandwidth.ts";
import type { Hasher } from "./hasher.ts";
import type { Turns } from "./turns.ts";

/** What all transfers share. */
export interface TransferTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly bandwidth: Bandwidth;
  readonly hasher: Hasher;
  readonly writes: Turns;
  readonly partsMax: number;
  readonly limits: RetryLimits;
}
