import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

/**
 * Appends the entries in one event loop turn, so that the ledger commits them together and in order. Returns the
 * receipts of all entries, or a refusal if the ledger rejected one of them.
 */
export async function appendBatch(
  ledger: Ledger,
  entries: readonly NewEntry[],
  logger: Logger,
  options: { readonly mayWait?: boolean } = {},
): Promise<readonly Receipt[] | CallRefusal> {
  const settled = await Promise.allSettled(entries.map((entry) => ledger.append(entry, options)));
  const receipts: Receipt[] = [];
  for (const result of settled) {
    if (result.status === "fulfilled") receipts.push(result.value);
    else {
      logger.warn({ err: result.reason }, "the ledger rejected an entry of a call");
      return ledgerUnavailableRefusal(result.reason);
    }
  }
  return receipts;
}

export function ledgerUnavailableRefusal(error: unknown): CallRefusal {
  const message =
    error instanceof AssistantError ? error.message : "the ledger cannot record this call";
  return failedRefusal("ledger_unavailable", message);
}

export function isRefusal(value: readonly Receipt[] | CallRefusal): value is CallRefusal {
  return "code" in value;
}
