import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry } from "../../ledger/port.ts";
import type { CallDetail } from "../port.ts";
import { appendBatch, isRefusal } from "./append-batch.ts";
import { expiredEntry, resultEntry, undoResultEntry } from "./call-entries.ts";
import type { CallJournal, UnfinishedCall } from "./call-journal.ts";
import { type CallRefusal, deniedRefusal, failedRefusal } from "./planned-call.ts";

/**
 * Ends the calls that a dead daemon left open. No app is called: a parked call is denied, because its prompts may
 * have disappeared; the result of a call that was running says that it is unknown whether the tool ran. If the ledger
 * rejects the entries, they go to the journal's outbox. Throws if the journal cannot be written.
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
  const mustQueue = isRefusal(await appendBatch(ledger, entries, logger));
  const toQueued = (entry: NewEntry) => (mustQueue ? [entry] : []);
  for (const { call, refusal, entry } of calls) {
    const { status, ...rest } = refusal;
    const reference = { app_id: call.app, tool: call.tool };
    const detail: CallDetail = { v: 1, ...rest, ...reference, undoable: false };
    journal.recordResult(
      call.call,
      call.state,
      { status, detail },
      { endedMs: nowMs, queuedEntries: toQueued(entry) },
    );
    if (call.state === "dispatching")
      logger.warn(
        { call: call.call, app: call.app, tool: call.tool },
        "a call was interrupted; it is unknown whether it ran, and it cannot be undone",
      );
  }
  for (const { call, tool, entry } of undos) {
    journal.recordUndoEnd(call, "unknown", toQueued(entry));
    logger.warn({ call, tool }, "an undo was interrupted; it is unknown whether it ran");
  }
  journal.prune(nowMs);
}

function buildRecoveryEnd(call: UnfinishedCall): {
  readonly refusal: CallRefusal;
  readonly entry: NewEntry;
} {
  const { state, ...reference } = call;
  if (state === "parked") {
    const refusal = deniedRefusal(
      "restarted",
      "the assistant was restarted; request the call again",
    );
    return { refusal, entry: expiredEntry(reference, "restarted") };
  }
  const message =
    "the assistant stopped before the app answered; it is unknown whether the call ran";
  const refusal: CallRefusal = { ...failedRefusal("interrupted", message), outcome: "unknown" };
  return { refusal, entry: resultEntry(reference, refusal) };
}
