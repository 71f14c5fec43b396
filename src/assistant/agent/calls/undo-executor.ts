import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { UndoReport } from "../port.ts";
import { appendBatch, isRefusal, ledgerUnavailableRefusal } from "./append-batch.ts";
import { undoDispatchEntry, undoResultEntry } from "./call-entries.ts";
import type { CallJournal, UndoableCall } from "./call-journal.ts";
import type { CallPlanner } from "./call-planner.ts";
import {
  type Dispatcher,
  type DispatchResult,
  isDispatched,
  type ToolInvocation,
} from "./dispatcher.ts";
import type { LedgerOutbox } from "./ledger-outbox.ts";
import type { CallRefusal } from "./planned-call.ts";

interface UndoDependencies {
  readonly ledger: Ledger;
  readonly journal: CallJournal;
  readonly planner: CallPlanner;
  readonly dispatcher: Dispatcher;
  readonly outbox: LedgerOutbox;
  readonly logger: Logger;
}

/**
 * Reverts calls one at a time, the last one first. The arguments of a compensation were fixed when its call was
 * executed. The compensation needs no confirmation of its own, because the user confirmed it together with the call.
 * One undo has these steps:
 *
 *   journal: undo state `running`, number of attempts + 1
 *   ledger:  agent.undo.dispatch
 *   app:     runs the compensation
 *   ledger:  agent.undo.result
 *   journal: undo state `undone`, or `ready` after a failure
 *
 * If the compensation failed, or was running when the daemon died, it is unknown whether it took effect. The next Undo
 * calls it again, or the user checks the app and skips the call.
 */
export class UndoExecutor {
  readonly #dependencies: UndoDependencies;
  #isBusy = false;
  /** Undone calls that the journal could not mark as undone; this process does not undo them again. */
  readonly #undoneUnsaved = new Set<number>();

  constructor(dependencies: UndoDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Reverts the last call that can be undone; for a sandboxed app, the last one that it requested itself. Rejects
   * with `busy` while another undo runs, so that a double click reverts only one call.
   */
  async undo(caller: Caller): Promise<UndoReport> {
    const { journal, dispatcher } = this.#dependencies;
    return this.#runExclusively(async () => {
      const owner = sandboxedApp(caller);
      const top = journal.findLastUndoable(owner, this.#undoneUnsaved);
      if (!top) return emptyReport();
      const compensation = this.#findCompensation(top);
      if ("code" in compensation)
        return this.#reportFailure(top, caller, compensation, top.attempts);
      try {
        journal.markUndoStarted(top.call);
      } catch (error) {
        return this.#reportFailure(top, caller, ledgerUnavailableRefusal(error), top.attempts);
      }
      const attempts = top.attempts + 1;
      const reference = { call: top.call, app: top.app, tool: compensation.tool.name };
      const details = { attempt: attempts, by: caller, argsText: top.compensation.argsText };
      const dispatch = undoDispatchEntry(reference, details);
      const dispatched = await dispatcher.dispatch(compensation, {
        before: [],
        dispatch,
      });
      if (!isDispatched(dispatched)) {
        this.#revertStart(top.call);
        return this.#reportFailure(top, caller, dispatched, top.attempts);
      }
      return this.#recordEnd(top, caller, dispatched, attempts);
    });
  }

  /**
   * Marks a call as not to be undone. Rejects with `not_found` if the call cannot be undone, with `forbidden` if a
   * sandboxed caller did not request the call itself, and with `busy` while an undo runs.
   */
  async skip(callId: number, caller: Caller): Promise<UndoReport> {
    const { journal, ledger, logger } = this.#dependencies;
    return this.#runExclusively(async () => {
      const call = journal.findUndoable(callId);
      const owner = sandboxedApp(caller);
      if (owner !== undefined && call?.requester !== owner)
        throw new AssistantError("forbidden", `call ${callId} was not requested by ${owner}`);
      if (!call || this.#undoneUnsaved.has(callId))
        throw new AssistantError("not_found", `call ${callId} cannot be undone`);
      const reference = { call: call.call, app: call.app, tool: call.compensation.tool };
      const entry = undoResultEntry(reference, { status: "skipped", code: "ok" });
      const receipts = await appendBatch(ledger, [entry], logger);
      if (isRefusal(receipts)) return this.#reportFailure(call, caller, receipts, call.attempts);
      try {
        journal.recordUndoEnd(callId, "skipped", []);
      } catch (error) {
        return this.#reportFailure(call, caller, ledgerUnavailableRefusal(error), call.attempts);
      }
      return this.#report(call, caller, "skipped", call.attempts, { ledger: receipts[0] });
    });
  }

  async #runExclusively<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isBusy)
      throw new AssistantError("busy", "another call is being undone; try again afterwards", {
        retryAfterSeconds: 1,
      });
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Returns the compensation that the current manifest declares, or the reason why it may not be called. */
  #findCompensation(top: UndoableCall): ToolInvocation | CallRefusal {
    const { planner } = this.#dependencies;
    const found = planner.findTool(top.app, top.compensation.tool);
    if ("code" in found) return found;
    const { args } = top.compensation;
    return (
      planner.checkDisabled(found.app, found.tool) ??
      planner.checkArguments(found.tool, args) ?? { ...found, args }
    );
  }

  async #recordEnd(
    top: UndoableCall,
    caller: Caller,
    { dispatch, outcome }: DispatchResult,
    attempts: number,
  ): Promise<UndoReport> {
    const { ledger, logger } = this.#dependencies;
    const isUndone = outcome.status === "executed";
    const entry = undoResultEntry(
      { call: top.call, app: top.app, tool: top.compensation.tool },
      {
        status: outcome.status,
        code: isUndone ? "ok" : outcome.code,
        dispatch: dispatch.seq,
        text: isUndone ? outcome.text : undefined,
      },
    );
    const receipts = await appendBatch(ledger, [entry], logger);
    const queuedEntries = isRefusal(receipts) ? [entry] : [];
    this.#save(top.call, isUndone, queuedEntries);
    if (!isUndone) return this.#reportFailure(top, caller, outcome, attempts, dispatch);
    const result = outcome.structured ?? outcome.content;
    return this.#report(top, caller, "undone", attempts, { ledger: dispatch, result });
  }

  #save(callId: number, isUndone: boolean, queuedEntries: readonly NewEntry[]): void {
    const { journal, outbox, logger } = this.#dependencies;
    try {
      journal.recordUndoEnd(callId, isUndone ? "undone" : "ready", queuedEntries);
      if (queuedEntries.length > 0) outbox.scheduleFlush();
    } catch (err) {
      logger.error({ err, call: callId, isUndone }, "the journal could not record an undo");
      if (isUndone) this.#undoneUnsaved.add(callId);
      for (const entry of queuedEntries) outbox.enqueue(entry);
    }
  }

  #revertStart(callId: number): void {
    const { journal, logger } = this.#dependencies;
    try {
      journal.revertUndoStarted(callId);
    } catch (err) {
      // The undo remains in state `running`, which the next Undo treats like `ready`. The only consequence is that the
      // recorded number of attempts is one too high.
      logger.warn({ err, call: callId }, "the journal could not record that an undo did not start");
    }
  }

  #reportFailure(
    call: UndoableCall,
    caller: Caller,
    { code, message }: CallRefusal,
    attempts: number,
    ledger?: Receipt,
  ): UndoReport {
    return this.#report(call, caller, "failed", attempts, { ledger, error: { code, message } });
  }

  #report(
    call: UndoableCall,
    caller: Caller,
    status: "undone" | "failed" | "skipped",
    attempts: number,
    more: {
      readonly ledger?: Receipt | undefined;
      readonly result?: unknown;
      readonly error?: UndoReport["error"];
    },
  ): UndoReport {
    return {
      v: 1,
      status,
      call_id: call.call,
      app_id: call.app,
      tool: call.tool,
      compensation: { tool: call.compensation.tool, args: call.compensation.args },
      result: more.result ?? null,
      error: more.error ?? null,
      attempts,
      remaining: this.#dependencies.journal.countUndoable(
        sandboxedApp(caller),
        this.#undoneUnsaved,
      ),
      ledger: more.ledger ?? null,
    };
  }
}

function emptyReport(): UndoReport {
  return {
    v: 1,
    status: "nothing",
    call_id: null,
    app_id: null,
    tool: null,
    compensation: null,
    result: null,
    error: null,
    attempts: 0,
    remaining: 0,
    ledger: null,
  };
}
