import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { UndoReport } from "../port.ts";
import { appendBatch, isRefusal, ledgerUnavailableRefusal } from "./append-batch.ts";
import {
  type CallReference,
  type ResultFields,
  undoDispatchEntry,
  undoLateEntry,
  undoResultEntry,
} from "./call-entries.ts";
import type { CallJournal, UndoableCall, UndoEndState } from "./call-journal.ts";
import type { CallOutcome } from "./call-outcome.ts";
import type { CallPlanner } from "./call-planner.ts";
import {
  type Dispatcher,
  type DispatchResult,
  isDispatched,
  type ToolInvocation,
} from "./dispatcher.ts";
import type { LedgerOutbox } from "./ledger-outbox.ts";
import type { CallRefusal } from "./planned-call.ts";
import { buildUndoReport, emptyUndoReport, type OpenUndos } from "./undo-report.ts";

interface UndoDependencies {
  readonly ledger: Ledger;
  readonly journal: CallJournal;
  readonly planner: CallPlanner;
  readonly dispatcher: Dispatcher;
  readonly outbox: LedgerOutbox;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
}

/** The owner of undos that are not those of a sandboxed app. No app has this id. */
const USER = "";

/**
 * Reverts calls, the last one first, and for each sandboxed app and the user one at a time. The arguments of a compensation were fixed when its call was
 * executed. The compensation needs no confirmation of its own, because the user confirmed it together with the call.
 * One undo has these steps:
 *
 *   journal: undo state `running`, number of attempts + 1
 *   ledger:  agent.undo.dispatch
 *   app:     runs the compensation
 *   ledger:  agent.undo.result
 *   journal: undo state `undone`, `ready` after a failure, or `unknown`
 *
 * After a failure the next Undo calls the compensation again. If it is unknown whether the compensation took effect,
 * because the app did not answer in time or the daemon died, the next Undo passes over the call, so that it does not
 * prevent the undo of older calls. The user can try the call again by its id, or skip it after checking the app, and a
 * late answer of the app settles it (agent.undo.late).
 */
export class UndoExecutor {
  readonly #dependencies: UndoDependencies;
  /** The sandboxed apps, and `USER`, with an undo or skip in progress. */
  readonly #busyOwners = new Set<string>();
  /** The calls that an undo or skip in progress changes, each with a promise that never rejects. */
  readonly #busyCalls = new Map<number, Promise<unknown>>();
  /**
   * Calls whose undo ended as undone or unknown, but could not be recorded in the journal; this process does not undo
   * them again.
   */
  readonly #unsaved = new Set<number>();

  constructor(dependencies: UndoDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Reverts the last call that can be undone; for a sandboxed app, the last one that it requested itself. Rejects
   * with `busy` while another undo of the same owner runs, so that a double click reverts only one call. The undo of an
   * app does not delay the user's, because the tools of an app may hang.
   */
  async undo(caller: Caller): Promise<UndoReport> {
    return this.#runExclusively(caller, async () => {
      const open = this.#listOpen(caller);
      const top = open.ready.find((callId) => !this.#busyCalls.has(callId));
      const call = top === undefined ? undefined : this.#dependencies.journal.findUndoable(top);
      if (!call) return emptyUndoReport(open);
      return this.#holdCall(call, () => this.#attempt(call, caller));
    });
  }

  /**
   * Tries again to revert a call whose undo has an unknown outcome. Rejects with `not_found` for other calls, and
   * otherwise like `skip`.
   */
  async retry(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#runExclusively(caller, async () => {
      const call = this.#findOwn(callId, caller);
      if (call.undoState !== "unknown")
        throw new AssistantError(
          "not_found",
          `no undo of call ${callId} has an unknown outcome; Undo reverts the last call`,
        );
      return this.#holdCall(call, () => this.#attempt(call, caller));
    });
  }

  /**
   * Marks a call as not to be undone. Rejects with `not_found` if the call cannot be undone, with `forbidden` if a
   * sandboxed caller did not request the call itself, and with `busy` while an undo runs.
   */
  async skip(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#runExclusively(caller, async () => {
      const call = this.#findOwn(callId, caller);
      return this.#holdCall(call, () => this.#skip(call, caller));
    });
  }

  async #skip(call: UndoableCall, caller: Caller): Promise<UndoReport> {
    const { journal, ledger, logger } = this.#dependencies;
    const entry = undoResultEntry(toReference(call), { status: "skipped", code: "ok" });
    const receipts = await appendBatch(ledger, [entry], logger);
    if (isRefusal(receipts)) return this.#reportFailure(call, caller, receipts, call.attempts);
    try {
      journal.recordUndoEnd(call.call, "skipped", []);
    } catch (error) {
      return this.#reportFailure(call, caller, ledgerUnavailableRefusal(error), call.attempts);
    }
    return this.#report(call, caller, "skipped", call.attempts, { ledger: receipts[0] });
  }

  async #attempt(call: UndoableCall, caller: Caller): Promise<UndoReport> {
    const { journal, dispatcher } = this.#dependencies;
    const compensation = this.#findCompensation(call);
    if ("code" in compensation)
      return this.#reportFailure(call, caller, compensation, call.attempts);
    try {
      journal.markUndoStarted(call.call);
    } catch (error) {
      return this.#reportFailure(call, caller, ledgerUnavailableRefusal(error), call.attempts);
    }
    const attempt = call.attempts + 1;
    const details = { attempt, by: caller, argsText: call.compensation.argsText };
    const dispatch = undoDispatchEntry(toReference(call), details);
    const dispatched = await dispatcher.dispatch(compensation, { before: [], dispatch });
    if (!isDispatched(dispatched)) {
      this.#revertStart(call);
      return this.#reportFailure(call, caller, dispatched, call.attempts);
    }
    return this.#recordEnd(call, caller, dispatched, attempt);
  }

  async #runExclusively<T>(caller: Caller, work: () => Promise<T>): Promise<T> {
    const owner = sandboxedApp(caller) ?? USER;
    if (this.#busyOwners.has(owner)) throw busyError();
    this.#busyOwners.add(owner);
    try {
      return await work();
    } finally {
      this.#busyOwners.delete(owner);
    }
  }

  /** Runs `work` on a call that no other undo or skip changes. */
  async #holdCall<T>({ call }: UndoableCall, work: () => Promise<T>): Promise<T> {
    if (this.#busyCalls.has(call)) throw busyError();
    const result = work();
    this.#busyCalls.set(call, Promise.allSettled([result]));
    try {
      return await result;
    } finally {
      this.#busyCalls.delete(call);
    }
  }

  /** Returns the ids of the calls that this caller can undo, the last executed call first. */
  #listOpen(caller: Caller): OpenUndos {
    const open = this.#dependencies.journal
      .listOpenUndos(sandboxedApp(caller))
      .filter(({ call }) => !this.#unsaved.has(call));
    const idsOf = (isUnknown: boolean) =>
      open.filter((one) => (one.undoState === "unknown") === isUnknown).map(({ call }) => call);
    return { ready: idsOf(false), unknown: idsOf(true) };
  }

  #findOwn(callId: number, caller: Caller): UndoableCall {
    const call = this.#dependencies.journal.findUndoable(callId);
    const owner = sandboxedApp(caller);
    if (owner !== undefined && call?.requester !== owner)
      throw new AssistantError("forbidden", `call ${callId} was not requested by ${owner}`);
    if (!call || this.#unsaved.has(callId))
      throw new AssistantError("not_found", `call ${callId} cannot be undone`);
    return call;
  }

  /** Returns the compensation that the current manifest declares, or the reason why it may not be called. */
  #findCompensation(call: UndoableCall): ToolInvocation | CallRefusal {
    const { planner } = this.#dependencies;
    const found = planner.findTool(call.app, call.compensation.tool);
    if ("code" in found) return found;
    const { args } = call.compensation;
    return (
      planner.checkDisabled(found.app, found.tool) ??
      planner.checkArguments(found.tool, args) ?? { ...found, args }
    );
  }

  async #recordEnd(
    call: UndoableCall,
    caller: Caller,
    { dispatch, outcome, late }: DispatchResult,
    attempt: number,
  ): Promise<UndoReport> {
    const { ledger, logger, tasks } = this.#dependencies;
    const entry = undoResultEntry(toReference(call), toFields(outcome, dispatch));
    const receipts = await appendBatch(ledger, [entry], logger);
    const queuedEntries = isRefusal(receipts) ? [entry] : [];
    this.#save(call.call, chooseEndState(call, outcome), queuedEntries);
    if (late)
      tasks.run("record a late answer of an undo", async (signal) => {
        const answer = await raceWithAbort(late, signal);
        if (answer) await this.#recordLate(call, dispatch, answer.outcome, attempt);
      });
    if (outcome.status !== "executed")
      return this.#reportFailure(call, caller, outcome, attempt, dispatch);
    const result = outcome.structured ?? outcome.content;
    return this.#report(call, caller, "undone", attempt, { ledger: dispatch, result });
  }

  /**
   * Settles an undo with an unknown outcome by the late answer of the app. An answer that reports a failure of the
   * compensation is ignored if another attempt may have taken effect.
   */
  async #recordLate(
    call: UndoableCall,
    dispatch: Receipt,
    outcome: CallOutcome,
    attempt: number,
  ): Promise<void> {
    const { ledger, journal, outbox, logger } = this.#dependencies;
    const { call: callId } = call;
    const entry = undoLateEntry(toReference(call), toFields(outcome, dispatch));
    if (isRefusal(await appendBatch(ledger, [entry], logger))) outbox.enqueue(entry);
    logger.info({ call: callId, status: outcome.status }, "an app answered an undo late");
    // Another attempt that is running would overwrite the state.
    for (let other = this.#busyCalls.get(callId); other; other = this.#busyCalls.get(callId))
      await other;
    try {
      if (outcome.status === "executed") journal.recordUndoneLate(callId);
      else if (call.undoState !== "unknown") journal.recordUndoFailedLate(callId, attempt);
    } catch (err) {
      logger.error({ err, call: callId }, "the journal could not record a late answer of an undo");
    }
  }

  #save(callId: number, state: UndoEndState, queuedEntries: readonly NewEntry[]): void {
    const { journal, outbox, logger } = this.#dependencies;
    try {
      journal.recordUndoEnd(callId, state, queuedEntries);
      if (queuedEntries.length > 0) outbox.scheduleFlush();
    } catch (err) {
      logger.error({ err, call: callId, state }, "the journal could not record an undo");
      if (state !== "ready") this.#unsaved.add(callId);
      for (const entry of queuedEntries) outbox.enqueue(entry);
    }
  }

  #revertStart({ call: callId, undoState }: UndoableCall): void {
    const { journal, logger } = this.#dependencies;
    try {
      journal.revertUndoStarted(callId, undoState === "unknown" ? "unknown" : "ready");
    } catch (err) {
      // The undo remains in state `running`, which the next Undo treats like `ready`. The only consequence is that the
      // recorded number of attempts is one too high.
      logger.warn({ err, call: callId }, "the journal could not record that an undo did not start");
    }
  }

  #reportFailure(
    call: UndoableCall,
    caller: Caller,
    { code, message, outcome }: CallRefusal,
    attempts: number,
    ledger?: Receipt,
  ): UndoReport {
    const error = { code, message, ...(outcome && { outcome }) };
    return this.#report(call, caller, "failed", attempts, { ledger, error });
  }

  #report(
    call: UndoableCall,
    caller: Caller,
    status: "undone" | "failed" | "skipped",
    attempts: number,
    more: Parameters<typeof buildUndoReport>[2],
  ): UndoReport {
    return buildUndoReport({ call, status, attempts }, this.#listOpen(caller), more);
  }
}

function busyError(): AssistantError {
  return new AssistantError("busy", "another call is being undone; try again afterwards", {
    retryAfterSeconds: 1,
  });
}

/** The reference of a compensation: the id of the reverted call, and the tool that reverts it. */
function toReference({ call, app, compensation }: UndoableCall): CallReference {
  return { call, app, tool: compensation.tool };
}

function toFields(outcome: CallOutcome, dispatch: Receipt): ResultFields {
  return outcome.status === "executed"
    ? { status: "executed", code: "ok", dispatch: dispatch.seq, text: outcome.text }
    : { status: outcome.status, code: outcome.code, dispatch: dispatch.seq };
}

/**
 * Returns the state of the undo after an attempt. A failed attempt leaves the outcome of an earlier attempt unknown:
 * the app may have failed because the earlier one took effect.
 */
function chooseEndState({ undoState }: UndoableCall, outcome: CallOutcome): UndoEndState {
  if (outcome.status === "executed") return "undone";
  return outcome.outcome === "unknown" || undoState === "unknown" ? "unknown" : "ready";
}
