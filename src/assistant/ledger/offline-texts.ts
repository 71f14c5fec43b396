import type { OfflineLedger } from "./offline-ledger.ts";
import { findMasterKey, listTextKeySources, type TextKeySourceOptions } from "./text-master-key.ts";

/** Reads the master key of the ledger's texts, if any text is encrypted, so that the ledger can decrypt them. */
export async function unlockTexts(
  ledger: OfflineLedger,
  options: TextKeySourceOptions,
  signal: AbortSignal,
): Promise<void> {
  const source = ledger.textKeySource;
  if (source === undefined) return;
  const sources = listTextKeySources(options, ledger.verifier.name);
  ledger.unlockTexts(await findMasterKey(sources, source, signal));
}
