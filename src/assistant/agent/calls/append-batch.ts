import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

/**
 * Hands the entries to the ledger in one turn, so that one commit takes them all, in their order. Receipts of
 * all of them, or a refusal where any was not taken.
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
      logger.warn({ err: result.reason }, "the ledger did not take a call");
      return ledgerUnavailableRefusal(result.reason);
    }
  }
  return receipts;
}

export function ledgerUnavailableRefusal(error: unknown): CallRefusal {
  const message =
    error instanceof AssistantError ? error.message : "the ledger cannot take this call";
  return failedRefusal("ledger_unavailable", message);
}

export function isRefusal(value: readonly Receipt[] | CallRefusal): value is CallRefusal {
  return "code" in value;
}
