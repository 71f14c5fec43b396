import type { Cleanup } from "../../base/cleanup.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { OpenLedger } from "../ledger/ledger.ts";
import { listTextKeySources, type TextKeySourceOptions } from "../ledger/text-master-key.ts";
import { TextProtection } from "../ledger/text-protection.ts";

interface Options extends TextKeySourceOptions {
  readonly ledger: OpenLedger;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Encrypts the texts of the ledger in the background, because the keyring may take seconds to answer. */
export function protectTexts({ ledger, clock, logger, ...from }: Options, cleanup: Cleanup): void {
  const sources = (ledgerId: string) => listTextKeySources(from, ledgerId);
  cleanup.use(new TextProtection({ ledger, sources, clock, logger })).start();
}
