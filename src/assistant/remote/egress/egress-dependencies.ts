import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { ProviderHttp } from "../provider-http/port.ts";
import type { ProviderDirectory } from "./port.ts";

/** What every request that leaves needs. */
export interface EgressDependencies {
  readonly http: ProviderHttp;
  readonly providers: ProviderDirectory;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 to 1, for what should not happen at the same time everywhere. */
  readonly random: () => number;
}
