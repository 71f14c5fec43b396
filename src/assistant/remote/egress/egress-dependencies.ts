import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { ProviderHttp } from "../provider-http/port.ts";
import type { ProviderDirectory } from "./port.ts";

/** Dependencies of every request to a provider. */
export interface EgressDependencies {
  readonly http: ProviderHttp;
  readonly providers: ProviderDirectory;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Returns a random number from 0 to 1, for the jitter of retries. */
  readonly random: () => number;
}
