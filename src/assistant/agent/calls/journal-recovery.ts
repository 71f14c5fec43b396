import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry } from "../../ledger/port.ts";
import type { CallDetail } from "../port.ts";
import { appendBatch, isRefusal } from "./append-batch.ts";
import { expiredEntry, resultEntry, undoResultEntry } from "./call-entries.ts";
import type { CallJournal, UnfinishedCall } from "./call-journal.ts";
import { type CallRefusal, deniedRefusal, failedRefusal } from "./planned-call.ts";

/**
 * Ends what a daemon left open that is no more. Nothing is sent to any app: a parked call is denied, since
 * nobody may know any more who is asked what; of one that was under way nobody knows whether it ran. Where the
 * ledger does not take the entries now, the journal owes them. Throws where the journal cannot be written.
 */
export async function recoverJournal(options: {
  readonly journal: CallJournal;
  readonly ledger: Ledger;
  readonly nowMs: number;
  readonly logger: Logger;
}): Promise<void> {
  const { journal, ledger, nowMs, logger } = options;
  const calls = journal.listUnfinished().map((call) => ({ call, ...buildRecoveryEnd(call) }));
  const undos = journal.listRunningUndos().map(({ call, app, tool }) => {
    const entry = undoResultEntry({ call, app, tool }, { status: "failed", code: "interrupted" });
    return { call, tool, entry };
  });
  const entries = [...calls, ...undos].map(({ entry }) => entry);
  const isOwed = isRefusal(await appendBatch(ledger, entries, logger));
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
    journal.recordResult(
      call.call,
      call.state,
      { status, detail },
      { endedMs: nowMs, owed: owed(entry) },
    );
    if (call.state === "dispatching")
      logger.warn(
        { call: call.call, app: call.app, tool: call.tool },
        "a call was interrupted; whether it ran is not known, and it cannot be undone",
      );
  }
  for (const { call, tool, entry } of undos) {
    journal.recordUndoEnd(call, "ready", owed(entry));
    logger.warn({ call, tool }, "an undo was interrupted; whether it ran is not known");
  }
  journal.prune(nowMs);
}

function buildRecoveryEnd(call: UnfinishedCall): {
  readonly refusal: CallRefusal;
  readonly entry: NewEntry;
} {
  const { state, ...place } = call;
  if (state === "parked") {
    const refusal = deniedRefusal(
      "restarted",
      "the assistant was started anew; ask for the call again",
    );
    return { refusal, entry: expiredEntry(place, "restarted") };
  }
  const message = "the assistant died before the app answered; whether the call ran is not known";
  const refusal = failedRefusal("interrupted", message);
  return { refusal, entry: resultEntry(place, refusal) };
}
