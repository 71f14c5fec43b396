import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../errors.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import { failed, type Refusal } from "./planned-call.ts";

/**
 * Hands the entries to the ledger in one turn, so that one commit takes them all, in their order. Receipts of
 * all of them, or a refusal where any was not taken.
 */
export async function appendTogether(
  ledger: Ledger,
  entries: readonly NewEntry[],
  logger: Logger,
  options: { readonly mayWait?: boolean } = {},
): Promise<readonly Receipt[] | Refusal> {
  const settled = await Promise.allSettled(entries.map((entry) => ledger.append(entry, options)));
  const receipts: Receipt[] = [];
  for (const result of settled) {
    if (result.status === "fulfilled") receipts.push(result.value);
    else {
      logger.warn({ err: result.reason }, "the ledger did not take a call");
      return ledgerUnavailable(result.reason);
    }
  }
  return receipts;
}

export function ledgerUnavailable(error: unknown): Refusal {
  const message =
    error instanceof AssistantError ? error.message : "the ledger cannot take this call";
  return failed("ledger_unavailable", message);
}

export function isRefusal(value: readonly Receipt[] | Refusal): value is Refusal {
  return "code" in value;
}
