import { type Clock, timestamp } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { CallAnswer, CallResult, CallStatus, ConfirmationSpec } from "../port.ts";
import { appendBatch, isRefusal, ledgerUnavailableRefusal } from "./append-batch.ts";
import type { BootClock } from "./boot-clock.ts";
import type { CallCompletionRecorder } from "./call-completion.ts";
import * as entries from "./call-entries.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallPlanner } from "./call-planner.ts";
import type { CallerQuotas } from "./caller-quotas.ts";
import { buildConfirmationSpec } from "./confirmation-spec.ts";
import { type Dispatcher, isDispatched } from "./dispatcher.ts";
import {
  buildDetailBase,
  type CallRefusal,
  deniedRefusal,
  failedRefusal,
  markReplayed,
  type PlannedCall,
  toRefusedResult,
} from "./planned-call.ts";

/** The time within which the user must confirm a call. After that, the call expires. */
const CONFIRMATION_TTL_MS = 300_000;
/**
 * The maximum size of the arguments in one list of calls. A list contains the arguments of each call twice, so 64 calls
 * with a megabyte each would not fit into a D-Bus message.
 */
const LISTED_BYTES_MAX = 4 * 1024 * 1024;
/** Timers pause while the machine sleeps, so the boot clock is checked for expired calls at least this often. */
const CHECK_INTERVAL_MS_MAX = 5_000;

interface ParkedCall {
  readonly plan: PlannedCall;
  /** The call's description, which was sent to the listeners. */
  readonly spec: ConfirmationSpec;
  /** The call can be approved from this time of the boot clock on. */
  readonly approvableBootMs: number;
  readonly expiresBootMs: number;
  /**
   * The result of the answer or expiry that is being processed, for which later answers wait; undefined at all other
   * times.
   */
  pendingResult: Promise<CallResult> | undefined;
}

/**
 * The outcome of an answer to a confirmation. If `isSettled` is false, nothing has happened and the call stays parked.
 */
interface DecisionOutcome {
  readonly result: CallResult;
  readonly isSettled: boolean;
}

export interface ConfirmationListener {
  confirmationRequested(callId: number, spec: ConfirmationSpec): void;
  callResolved(callId: number, status: CallStatus): void;
}

interface PendingConfirmationsDependencies {
  readonly ledger: Ledger;
  readonly journal: CallJournal;
  readonly planner: CallPlanner;
  readonly dispatcher: Dispatcher;
  readonly completions: CallCompletionRecorder;
  readonly quotas: CallerQuotas;
  readonly listener: ConfirmationListener;
  readonly clock: Clock;
  readonly bootClock: BootClock;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
}

/**
 * Keeps the calls that wait for confirmation, and runs or declines them when they are answered. The agent decides which
 * callers may answer.
 */
export class PendingConfirmations {
  readonly #dependencies: PendingConfirmationsDependencies;
  readonly #parked = new Map<number, ParkedCall>();
  /** Calls that did not run but are still `dispatching` in the journal, because the write that releases them failed. */
  readonly #unreleased = new Set<number>();
  #cancelTimer: (() => void) | undefined;

  constructor(dependencies: PendingConfirmationsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the caller that requested a parked call; undefined if no call with this id is parked. */
  findRequester(callId: number): Caller | undefined {
    return this.#parked.get(callId)?.plan.caller;
  }

  /** Returns the unanswered calls, oldest first. If `requester` is given, calls of other callers are left out. */
  list(requester: string | undefined): readonly ConfirmationSpec[] {
    const specs: ConfirmationSpec[] = [];
    let bytes = 0;
    for (const parked of this.#parked.values()) {
      if (parked.pendingResult || this.#isExpired(parked)) continue;
      const { argsText, caller } = parked.plan;
      if (requester !== undefined && sandboxedApp(caller) !== requester) continue;
      bytes += Buffer.byteLength(argsText);
      if (bytes > LISTED_BYTES_MAX) break;
      specs.push(parked.spec);
    }
    return specs;
  }

  /**
   * Parks a call: writes `requested` to the ledger, the call to the journal, and `parked` to the ledger, in this order.
   * Then notifies the listeners.
   */
  async park(
    plan: PlannedCall,
    disposition: "confirm-chip" | "confirm-modal",
  ): Promise<CallAnswer> {
    const { quotas, journal, completions } = this.#dependencies;
    const requested = entries.requestedEntry(entries.toRequestedCall(plan));
    const full = quotas.park(plan.caller);
    if (full) {
      const result = entries.resultEntry(entries.toCallReference(plan), full);
      return this.#toRefusedAnswer(plan, full, await this.#append([requested, result]));
    }
    let isParked = false;
    try {
      const first = await this.#append([requested]);
      if (isRefusal(first)) return this.#toRefusedAnswer(plan, first, first);
      try {
        const { argsText } = plan;
        const requester = sandboxedApp(plan.caller);
        journal.add({ ...entries.toCallReference(plan), requester, argsText }, "parked");
      } catch (error) {
        const refusal = ledgerUnavailableRefusal(error);
        const result = entries.resultEntry(entries.toCallReference(plan), refusal);
        return this.#toRefusedAnswer(plan, refusal, await this.#append([result]));
      }
      const second = await this.#append([entries.parkedEntry(plan, CONFIRMATION_TTL_MS)]);
      if (isRefusal(second)) {
        const result = entries.resultEntry(entries.toCallReference(plan), second);
        const end = await completions.recordUndispatched(plan, second, [result]);
        return { callId: plan.callId, disposition: end.status, detail: end.detail };
      }
      isParked = true;
      return this.#addParked(plan, disposition, second.at(-1));
    } finally {
      if (!isParked) quotas.unpark(plan.caller);
    }
  }

  /**
   * Carries out an answer to a confirmation. Returns undefined if no call with this id waits for a confirmation.
   * Rejects with `busy`, and does nothing, if the call is approved before its hold time has passed.
   */
  async answer(callId: number, approve: boolean, by: Caller): Promise<CallResult | undefined> {
    const parked = this.#parked.get(callId);
    if (!parked) return undefined;
    if (parked.pendingResult) return markReplayed(await parked.pendingResult);
    if (this.#isExpired(parked)) return this.#decide(parked, () => this.#expire(parked.plan));
    if (approve) this.#assertHeld(parked);
    return this.#decide(parked, () =>
      approve ? this.#confirm(parked.plan, by) : this.#decline(parked.plan, by),
    );
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  #addParked(
    plan: PlannedCall,
    disposition: "confirm-chip" | "confirm-modal",
    ledger: Receipt | undefined,
  ): CallAnswer {
    const { bootClock, clock, listener } = this.#dependencies;
    const bootMs = bootClock.now();
    const expiresAtMs = clock.now() + CONFIRMATION_TTL_MS;
    const spec = buildConfirmationSpec(plan, expiresAtMs);
    this.#parked.set(plan.callId, {
      plan,
      spec,
      approvableBootMs: bootMs + plan.decision.holdMs,
      expiresBootMs: bootMs + CONFIRMATION_TTL_MS,
      pendingResult: undefined,
    });
    this.#scheduleExpiryCheck();
    listener.confirmationRequested(plan.callId, spec);
    const detail = {
      ...buildDetailBase(plan),
      code: "confirm",
      message: `${plan.tool.title} waits for confirmation`,
      expires_at: timestamp(expiresAtMs),
      ...(ledger ? { ledger } : {}),
    } as const;
    return { callId: plan.callId, disposition, detail };
  }

  /**
   * Calls `work`, which decides a parked call. If `work` settles the call, the call is no longer parked; otherwise it
   * waits for another decision.
   */
  #decide(parked: ParkedCall, work: () => Promise<DecisionOutcome>): Promise<CallResult> {
    const { quotas, listener } = this.#dependencies;
    const { callId, caller } = parked.plan;
    const pending = work().then(
      ({ result: end, isSettled }) => {
        if (isSettled) {
          this.#parked.delete(callId);
          quotas.unpark(caller);
          listener.callResolved(callId, end.status);
        } else this.#resumeWaiting(parked);
        return end;
      },
      (error: unknown) => {
        // After an error the call is parked again, so that the user can answer again. If the call was already
        // dispatched, the journal prevents a second dispatch.
        this.#resumeWaiting(parked);
        throw error;
      },
    );
    parked.pendingResult = pending;
    return pending;
  }

  #resumeWaiting(parked: ParkedCall): void {
    parked.pendingResult = undefined;
    this.#scheduleExpiryCheck();
  }

  async #confirm(plan: PlannedCall, by: Caller): Promise<DecisionOutcome> {
    const { planner, journal, completions, dispatcher, logger } = this.#dependencies;
    const confirmed = entries.answeredEntry(plan, "confirmed", by);
    const refusal = planner.checkUnchanged(plan);
    if (refusal) {
      const result = entries.resultEntry(entries.toCallReference(plan), refusal);
      return toSettled(await this.#recordUndispatched(plan, refusal, [confirmed, result]));
    }
    try {
      this.#release(plan.callId);
      if (!journal.claim(plan.callId)) {
        const ended = completions.find(plan.callId)?.result;
        return toSettled(
          ended ? markReplayed(ended) : toRefusedResult(plan, unknownCallRefusal(plan.callId)),
        );
      }
    } catch (error) {
      return this.#keepWaiting(plan, ledgerUnavailableRefusal(error));
    }
    const dispatched = await dispatcher.dispatch(plan, {
      before: [confirmed],
      dispatch: entries.dispatchEntry(plan),
    });
    if (isDispatched(dispatched))
      return toSettled(await completions.recordDispatched(plan, dispatched, true));
    this.#unreleased.add(plan.callId);
    try {
      this.#release(plan.callId);
    } catch (err) {
      logger.warn(
        { err, call: plan.callId },
        "the journal still lists a parked call as dispatching",
      );
    }
    return this.#keepWaiting(plan, dispatched);
  }

  /**
   * Declines a parked call. Succeeds even if the ledger cannot be written, because the app is not called in any case.
   */
  async #decline(plan: PlannedCall, by: Caller): Promise<DecisionOutcome> {
    const entry = entries.answeredEntry(plan, "declined", by);
    const refusal = deniedRefusal("declined", `${plan.tool.title} was declined`);
    return toSettled(await this.#recordUndispatched(plan, refusal, [entry]));
  }

  async #expire(plan: PlannedCall): Promise<DecisionOutcome> {
    const entry = entries.expiredEntry(entries.toCallReference(plan), "expired");
    const refusal = deniedRefusal("expired", `${plan.tool.title} was not confirmed in time`);
    return toSettled(await this.#recordUndispatched(plan, refusal, [entry]));
  }

  async #recordUndispatched(
    plan: PlannedCall,
    refusal: CallRefusal,
    endEntries: readonly NewEntry[],
  ): Promise<CallResult> {
    try {
      this.#release(plan.callId);
    } catch {
      // The journal could not release the call. `recordUndispatched` also writes to the journal, and logs the failure
      // of that write.
    }
    return this.#dependencies.completions.recordUndispatched(plan, refusal, endEntries);
  }

  #keepWaiting(plan: PlannedCall, refusal: CallRefusal): DecisionOutcome {
    const message = `${refusal.message}; the call still waits for confirmation`;
    return { result: toRefusedResult(plan, { ...refusal, message }), isSettled: false };
  }

  #release(callId: number): void {
    if (!this.#unreleased.has(callId)) return;
    this.#dependencies.journal.release(callId);
    this.#unreleased.delete(callId);
  }

  #append(list: readonly NewEntry[]): ReturnType<typeof appendBatch> {
    const { ledger, logger } = this.#dependencies;
    return appendBatch(ledger, list, logger);
  }

  #toRefusedAnswer(
    plan: PlannedCall,
    refusal: CallRefusal,
    written: readonly Receipt[] | CallRefusal,
  ): CallAnswer {
    const end = isRefusal(written)
      ? toRefusedResult(plan, written)
      : toRefusedResult(plan, refusal, written[0]);
    return { callId: plan.callId, disposition: end.status, detail: end.detail };
  }

  /**
   * Throws `busy` before the hold time has passed. Frontends wait for that time too. This check is for a frontend that
   * does not wait, and for a program that approves every call at once: both would leave the user no time to read the
   * call.
   */
  #assertHeld({ plan, approvableBootMs }: ParkedCall): void {
    const remainingMs = approvableBootMs - this.#dependencies.bootClock.now();
    if (remainingMs <= 0) return;
    throw new AssistantError(
      "busy",
      `${plan.tool.title} can be confirmed only ${plan.decision.holdMs} ms after it was requested, so that the user can read it first; confirm it again afterwards`,
      { retryAfterSeconds: Math.ceil(remainingMs / 1_000) },
    );
  }

  #isExpired(parked: ParkedCall): boolean {
    return this.#dependencies.bootClock.now() >= parked.expiresBootMs;
  }

  #scheduleExpiryCheck(): void {
    const { tasks, bootClock, clock } = this.#dependencies;
    const waiting = [...this.#parked.values()].filter(
      ({ pendingResult }) => pendingResult === undefined,
    );
    if (this.#cancelTimer || tasks.signal.aborted || waiting.length === 0) return;
    const nextMs = Math.min(...waiting.map(({ expiresBootMs }) => expiresBootMs));
    const waitMs = Math.max(0, Math.min(CHECK_INTERVAL_MS_MAX, nextMs - bootClock.now()));
    this.#cancelTimer = clock.setTimer(waitMs, () => {
      this.#cancelTimer = undefined;
      tasks.run("expire parked calls", () => this.#expireOverdue());
    });
  }

  async #expireOverdue(): Promise<void> {
    const due = [...this.#parked.values()].filter(
      (parked) => parked.pendingResult === undefined && this.#isExpired(parked),
    );
    await Promise.all(due.map((parked) => this.#decide(parked, () => this.#expire(parked.plan))));
    this.#scheduleExpiryCheck();
  }
}

function toSettled(end: CallResult): DecisionOutcome {
  return { result: end, isSettled: true };
}

export function unknownCallRefusal(callId: number): CallRefusal {
  return failedRefusal(
    "unknown_call",
    `no call ${callId} waits for confirmation or has waited recently`,
  );
}
