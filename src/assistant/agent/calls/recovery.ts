import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry } from "../../ledger/port.ts";
import type { CallDetail } from "../port.ts";
import { appendTogether, isRefusal } from "./append-together.ts";
import { expiredEntry, resultEntry, undoResultEntry } from "./entries.ts";
import type { Journal, UnfinishedCall } from "./journal.ts";
import { denied, failed, type Refusal } from "./planned-call.ts";

/**
 * Ends what a daemon left open that is no more. Nothing is sent to any app: a parked call is denied, since
 * nobody may know any more who is asked what; of one that was under way nobody knows whether it ran. Where the
 * ledger does not take the entries now, the journal owes them. Throws where the journal cannot be written.
 */
export async function recover(options: {
  readonly journal: Journal;
  readonly ledger: Ledger;
  readonly nowMs: number;
  readonly logger: Logger;
}): Promise<void> {
  const { journal, ledger, nowMs, logger } = options;
  const calls = journal.unfinished().map((call) => ({ call, ...lastOf(call) }));
  const undos = journal.undosUnderWay().map(({ call, app, tool }) => {
    const entry = undoResultEntry({ call, app, tool }, { status: "failed", code: "interrupted" });
    return { call, tool, entry };
  });
  const entries = [...calls, ...undos].map(({ entry }) => entry);
  const isOwed = isRefusal(await appendTogether(ledger, entries, logger));
  const owed = (entry: NewEntry) => (isOwed ? [entry] : []);
  for (const { call, refusal, entry } of calls) {
    const { status, code, message } = refusal;
    const detail: CallDetail = {
      v: 1,
      code,
      message,
      app_id: call.app,
      tool: call.tool,
      undoable: false,
    };
    journal.end(call.call, call.state, { status, detail }, { endedMs: nowMs, owed: owed(entry) });
    if (call.state === "dispatching")
      logger.warn(
        { call: call.call, app: call.app, tool: call.tool },
        "a call was interrupted; whether it ran is not known, and it cannot be undone",
      );
  }
  for (const { call, tool, entry } of undos) {
    journal.undoEnded(call, "ready", owed(entry));
    logger.warn({ call, tool }, "an undo was interrupted; whether it ran is not known");
  }
  journal.prune(nowMs);
}

function lastOf(call: UnfinishedCall): { readonly refusal: Refusal; readonly entry: NewEntry } {
  const { state, ...place } = call;
  if (state === "parked") {
    const refusal = denied("restarted", "the assistant was started anew; ask for the call again");
    return { refusal, entry: expiredEntry(place, "restarted") };
  }
  const message = "the assistant died before the app answered; whether the call ran is not known";
  const refusal = failed("interrupted", message);
  return { refusal, entry: resultEntry(place, refusal) };
}
