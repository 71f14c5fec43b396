import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import { sandboxedApp } from "../../caller.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { CallDetail, CallResult } from "../port.ts";
import { appendBatch, isRefusal } from "./append-batch.ts";
import { lateEntry, type ResultFields, resultEntry, toCallReference } from "./call-entries.ts";
import type { CallJournal, EndedCall } from "./call-journal.ts";
import type { CallPlanner } from "./call-planner.ts";
import { buildCompensation, type Compensation } from "./compensation.ts";
import type { DispatchResult, TimedOutcome } from "./dispatcher.ts";
import type { LedgerOutbox } from "./ledger-outbox.ts";
import {
  buildDetailBase,
  type CallRefusal,
  type PlannedCall,
  toRefusedResult,
} from "./planned-call.ts";

/**
 * Results that the journal could not record are kept in memory up to this number, because a full disk must not fill
 * the memory too.
 */
const UNSAVED_MAX = 256;

interface UnsavedResult extends EndedCall {
  readonly from: "parked" | "dispatching";
}

interface CallCompletionDependencies {
  readonly ledger: Ledger;
  readonly journal: CallJournal;
  readonly outbox: LedgerOutbox;
  readonly planner: CallPlanner;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
}

/**
 * Records how calls end, first in the ledger and then in the journal. Entries that the ledger rejects go to the
 * outbox, and results that the journal rejects are kept in memory; both are tried again.
 */
export class CallCompletionRecorder {
  readonly #dependencies: CallCompletionDependencies;
  readonly #unsaved = new Map<number, UnsavedResult>();

  constructor(dependencies: CallCompletionDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Records the result of a tool that was called. The call is final even if the ledger or the journal cannot record it,
   * except that a late answer of the app replaces a result whose outcome is unknown. A call of a tool without undo that
   * needed no confirmation has no journal row; its answer does not wait for the ledger.
   */
  async recordDispatched(
    call: PlannedCall,
    dispatched: DispatchResult,
    isJournaled: boolean,
  ): Promise<CallResult> {
    const { dispatch, late } = dispatched;
    const { end, fields, compensation } = this.#buildEnd(call, dispatch, dispatched);
    const entry = resultEntry(toCallReference(call), fields);
    const recorded = await this.#finish(call, end, entry, isJournaled, compensation);
    if (late)
      this.#dependencies.tasks.run("record a late answer", async (signal) => {
        const answer = await raceWithAbort(late, signal);
        // The ledger must contain the result before the late answer. The result is appended one turn of the event loop
        // later, so this task waits for that turn.
        await setImmediate();
        if (answer) await this.#recordLate(call, dispatch, answer, isJournaled);
      });
    return recorded;
  }

  /**
   * Records the end of a parked call that was not dispatched. `entries` are the last ledger entries of the call, in
   * order.
   */
  async recordUndispatched(
    call: PlannedCall,
    refusal: CallRefusal,
    entries: readonly NewEntry[],
  ): Promise<CallResult> {
    const { ledger, logger } = this.#dependencies;
    const receipts = await appendBatch(ledger, entries, logger);
    const isWritten = !isRefusal(receipts);
    const end = toRefusedResult(call, refusal, isWritten ? receipts.at(-1) : undefined);
    this.#save(call, "parked", end, isWritten ? [] : entries);
    return end;
  }

  /** Returns the result of an ended call; undefined if the call has not ended, or its result is no longer kept. */
  find(callId: number): EndedCall | undefined {
    return this.#unsaved.get(callId) ?? this.#dependencies.journal.findEnded(callId);
  }

  /** Tries again to record the results that the journal could not record. */
  retryUnsaved(): void {
    const { journal, clock } = this.#dependencies;
    for (const [callId, { from, result: end }] of this.#unsaved) {
      try {
        journal.recordResult(callId, from, end, {
          endedMs: clock.now(),
        });
      } catch {
        // The first failure to record the result was logged, so this failure is not logged. If the daemon exits before
        // a retry succeeds, the next start reports the call as interrupted.
        return;
      }
      this.#unsaved.delete(callId);
    }
  }

  /**
   * Records the answer that an app gave after the time limit of the call: in the ledger, and in the journal in place of
   * the result with the unknown outcome, so that the call can be undone.
   */
  async #recordLate(
    call: PlannedCall,
    dispatch: Receipt,
    answer: TimedOutcome,
    isJournaled: boolean,
  ): Promise<void> {
    const { ledger, journal, outbox, logger } = this.#dependencies;
    const { end, fields, compensation } = this.#buildEnd(call, dispatch, answer);
    const entry = lateEntry(toCallReference(call), fields);
    const receipts = await appendBatch(ledger, [entry], logger);
    const { callId } = call;
    logger.info({ call: callId, code: fields.code }, "an app answered a call after its time limit");
    if (isRefusal(receipts)) outbox.enqueue(entry);
    if (!isJournaled) return;
    const result: CallResult = { ...end, detail: { ...end.detail, late: true } };
    try {
      if (!journal.recordLateResult(callId, result, compensation))
        logger.warn({ call: callId }, "the journal has no result that a late answer could replace");
    } catch (err) {
      logger.error({ err, call: callId }, "the journal could not record a late answer");
    }
  }

  /** Builds the result of a dispatched call, the fields of its ledger entry, and its compensation. */
  #buildEnd(
    call: PlannedCall,
    dispatch: Receipt,
    { outcome, ms }: TimedOutcome,
  ): {
    readonly end: CallResult;
    readonly fields: ResultFields;
    readonly compensation?: Compensation | undefined;
  } {
    if (outcome.status !== "executed") {
      const { status, detail } = toRefusedResult(call, outcome, dispatch);
      const fields = { status, code: outcome.code, dispatch: dispatch.seq };
      return { end: { status, detail: { ...detail, ms } }, fields };
    }
    const { structured, content, text } = outcome;
    const compensation = this.#buildCompensation(call, structured);
    const done = `${call.tool.title}: done`;
    const detail: CallDetail = {
      ...buildDetailBase(call),
      code: "ok",
      message:
        typeof compensation === "string" ? `${done}; it cannot be undone: ${compensation}` : done,
      undoable: typeof compensation === "object",
      ...(structured === undefined ? {} : { result: structured }),
      content,
      ...(typeof compensation === "object"
        ? { undo: { tool: compensation.tool, args: compensation.args } }
        : {}),
      ledger: dispatch,
      ms,
    };
    return {
      end: { status: "executed", detail },
      fields: { status: "executed", code: "ok", dispatch: dispatch.seq, text },
      compensation: typeof compensation === "object" ? compensation : undefined,
    };
  }

  async #finish(
    call: PlannedCall,
    end: CallResult,
    entry: NewEntry,
    isJournaled: boolean,
    compensation?: Compensation,
  ): Promise<CallResult> {
    const { tasks, ledger, logger, outbox } = this.#dependencies;
    if (!isJournaled) {
      tasks.run("append the result of a call", async () => {
        // The caller gets its answer before the entry is written: the entry waits until the current turn of the event
        // loop has ended, and the answer does not wait for the entry.
        await setImmediate();
        const receipts = await appendBatch(ledger, [entry], logger, {
          mayWait: true,
        });
        if (isRefusal(receipts)) outbox.enqueue(entry);
      });
      return end;
    }
    const receipts = await appendBatch(ledger, [entry], logger);
    const queuedEntries = isRefusal(receipts) ? [entry] : [];
    if (this.#save(call, "dispatching", end, queuedEntries, compensation) || !compensation)
      return end;
    // The compensation could not be written to the disk, so Undo will not find it.
    const { undo: _, ...rest } = end.detail;
    const message = `${call.tool.title}: done; it cannot be undone, because the journal could not record it`;
    const irreversible = { ...end, detail: { ...rest, message, undoable: false } };
    const unsaved = this.#unsaved.get(call.callId);
    if (unsaved) this.#unsaved.set(call.callId, { ...unsaved, result: irreversible });
    return irreversible;
  }

  #save(
    call: PlannedCall,
    from: "parked" | "dispatching",
    end: CallResult,
    queuedEntries: readonly NewEntry[],
    compensation?: Compensation,
  ): boolean {
    const { clock, journal, logger, outbox } = this.#dependencies;
    const endedMs = clock.now();
    try {
      if (
        !journal.recordResult(call.callId, from, end, {
          endedMs,
          compensation,
          queuedEntries,
        })
      )
        logger.error(
          { call: call.callId, from },
          "the journal already contained the end of a call",
        );
    } catch (err) {
      logger.error({ err, call: call.callId }, "the journal could not record the end of a call");
      if (this.#unsaved.size >= UNSAVED_MAX) {
        for (const oldest of this.#unsaved.keys()) {
          this.#unsaved.delete(oldest);
          break;
        }
      }
      this.#unsaved.set(call.callId, { from, result: end, requester: sandboxedApp(call.caller) });
      for (const entry of queuedEntries) outbox.enqueue(entry);
      return false;
    }
    if (queuedEntries.length > 0) outbox.scheduleFlush();
    this.retryUnsaved();
    return true;
  }

  /**
   * Returns the compensation with valid arguments, a string with the reason why the call cannot be undone, or
   * undefined if the tool declares no compensation.
   */
  #buildCompensation(
    call: PlannedCall,
    result: PlannedCall["args"] | undefined,
  ): Compensation | string | undefined {
    const { undo } = call.tool;
    if (!undo) return undefined;
    const compensation = buildCompensation(undo, call.args, result);
    if (typeof compensation === "string") return compensation;
    const tool = call.app.tools.find((one) => one.name === compensation.tool);
    if (!tool) return `${call.app.name} declares no tool ${compensation.tool}`;
    const invalid = this.#dependencies.planner.checkArguments(tool, compensation.args);
    return invalid ? `${tool.name} rejects the arguments: ${invalid.message}` : compensation;
  }
}
