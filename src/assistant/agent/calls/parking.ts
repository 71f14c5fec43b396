import { type Clock, timestamp } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { CallAnswer, CallEnd, CallStatus, ConfirmationSpec } from "../port.ts";
import type { Admission } from "./admission.ts";
import { appendTogether, isRefusal, ledgerUnavailable } from "./append-together.ts";
import type { BootClock } from "./boot-clock.ts";
import type { CallEnds } from "./call-ends.ts";
import { confirmationSpec } from "./confirmation-spec.ts";
import { type Dispatcher, isDispatched } from "./dispatcher.ts";
import * as entries from "./entries.ts";
import type { Journal } from "./journal.ts";
import {
  denied,
  detailBase,
  failed,
  type PlannedCall,
  type Refusal,
  refusedEnd,
  replayed,
} from "./planned-call.ts";
import type { Planner } from "./planner.ts";

/** How long a person has to answer. */
const TTL_MS = 300_000;
/** Of arguments in one list of calls: 64 calls with a megabyte each, told twice, are more than a bus takes. */
const LISTED_BYTES_MAX = 4 * 1024 * 1024;
/** Timers stand still while the machine sleeps, so the boot clock is looked at this often at least. */
const LOOK_MS_MAX = 5_000;

interface ParkedCall {
  readonly plan: PlannedCall;
  /** As everybody was asked. */
  readonly spec: ConfirmationSpec;
  readonly expiresBootMs: number;
  /** Somebody has answered, or the time is up; all who answer later wait for the same end. */
  deciding: Promise<CallEnd> | undefined;
}

/** How an answer came out. Not over: nothing has happened, and the call waits on. */
interface Decided {
  readonly end: CallEnd;
  readonly isOver: boolean;
}

export interface ParkingListener {
  confirmationRequested(callId: number, spec: ConfirmationSpec): void;
  callResolved(callId: number, status: CallStatus): void;
}

/** Calls that wait for a person. Who may answer is decided by whoever asks; this is what an answer does. */
export class Parking {
  readonly #ledger: Ledger;
  readonly #journal: Journal;
  readonly #planner: Planner;
  readonly #dispatcher: Dispatcher;
  readonly #ends: CallEnds;
  readonly #admission: Admission;
  readonly #listener: ParkingListener;
  readonly #clock: Clock;
  readonly #bootClock: BootClock;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;
  readonly #parked = new Map<number, ParkedCall>();
  /** In the journal still `dispatching`, because it did not take that nothing has happened. */
  readonly #mustRelease = new Set<number>();
  #cancelTimer: (() => void) | undefined;

  constructor(options: {
    readonly ledger: Ledger;
    readonly journal: Journal;
    readonly planner: Planner;
    readonly dispatcher: Dispatcher;
    readonly ends: CallEnds;
    readonly admission: Admission;
    readonly listener: ParkingListener;
    readonly clock: Clock;
    readonly bootClock: BootClock;
    readonly tasks: TaskGroup;
    readonly logger: Logger;
  }) {
    this.#ledger = options.ledger;
    this.#journal = options.journal;
    this.#planner = options.planner;
    this.#dispatcher = options.dispatcher;
    this.#ends = options.ends;
    this.#admission = options.admission;
    this.#listener = options.listener;
    this.#clock = options.clock;
    this.#bootClock = options.bootClock;
    this.#tasks = options.tasks;
    this.#logger = options.logger;
  }

  /** Who asked for the parked call; undefined: no such call is parked. */
  requester(callId: number): Caller | undefined {
    return this.#parked.get(callId)?.plan.caller;
  }

  /** Those that nobody has answered, oldest first; with `requester` only what that sandboxed app asked for. */
  waiting(requester: string | undefined): readonly ConfirmationSpec[] {
    const specs: ConfirmationSpec[] = [];
    let bytes = 0;
    for (const parked of this.#parked.values()) {
      if (parked.deciding || this.#isDue(parked)) continue;
      const { argsText, caller } = parked.plan;
      if (requester !== undefined && sandboxedApp(caller) !== requester) continue;
      bytes += Buffer.byteLength(argsText);
      if (bytes > LISTED_BYTES_MAX) break;
      specs.push(parked.spec);
    }
    return specs;
  }

  /** Waits for the ledger, the journal and the ledger again, in this order; then everybody is told. */
  async park(
    plan: PlannedCall,
    disposition: "confirm-chip" | "confirm-modal",
  ): Promise<CallAnswer> {
    const requested = entries.requestedEntry(entries.asRequested(plan));
    const full = this.#admission.park(plan.caller);
    if (full) {
      const result = entries.resultEntry(entries.place(plan), full);
      return this.#refused(plan, full, await this.#append([requested, result]));
    }
    let isParked = false;
    try {
      const first = await this.#append([requested]);
      if (isRefusal(first)) return this.#refused(plan, first, first);
      try {
        const { argsText } = plan;
        const requester = sandboxedApp(plan.caller);
        this.#journal.add({ ...entries.place(plan), requester, argsText }, "parked");
      } catch (error) {
        const refusal = ledgerUnavailable(error);
        const result = entries.resultEntry(entries.place(plan), refusal);
        return this.#refused(plan, refusal, await this.#append([result]));
      }
      const second = await this.#append([entries.parkedEntry(plan, TTL_MS)]);
      if (isRefusal(second)) {
        const result = entries.resultEntry(entries.place(plan), second);
        const end = await this.#ends.undispatched(plan, second, [result]);
        return { callId: plan.callId, disposition: end.status, detail: end.detail };
      }
      isParked = true;
      return this.#opened(plan, disposition, second.at(-1));
    } finally {
      if (!isParked) this.#admission.unpark(plan.caller);
    }
  }

  /** Undefined: no such call is parked. */
  async answer(callId: number, approve: boolean, by: Caller): Promise<CallEnd | undefined> {
    const parked = this.#parked.get(callId);
    if (!parked) return undefined;
    if (parked.deciding) return replayed(await parked.deciding);
    if (this.#isDue(parked)) return this.#decide(parked, () => this.#expire(parked.plan));
    return this.#decide(parked, () =>
      approve ? this.#confirm(parked.plan, by) : this.#decline(parked.plan, by),
    );
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  #opened(
    plan: PlannedCall,
    disposition: "confirm-chip" | "confirm-modal",
    ledger: Receipt | undefined,
  ): CallAnswer {
    const expiresBootMs = this.#bootClock.now() + TTL_MS;
    const expiresAtMs = this.#clock.now() + TTL_MS;
    const spec = confirmationSpec(plan, expiresAtMs);
    this.#parked.set(plan.callId, { plan, spec, expiresBootMs, deciding: undefined });
    this.#lookLater();
    this.#listener.confirmationRequested(plan.callId, spec);
    const detail = {
      ...detailBase(plan),
      code: "confirm",
      message: `${plan.tool.title} waits for confirmation`,
      expires_at: timestamp(expiresAtMs),
      ...(ledger ? { ledger } : {}),
    } as const;
    return { callId: plan.callId, disposition, detail };
  }

  /** Everything about this call goes through here, one after the other. */
  #decide(parked: ParkedCall, work: () => Promise<Decided>): Promise<CallEnd> {
    const { callId, caller } = parked.plan;
    const deciding = work().then(
      ({ end, isOver }) => {
        if (isOver) {
          this.#parked.delete(callId);
          this.#admission.unpark(caller);
          this.#listener.callResolved(callId, end.status);
        } else this.#waitAgain(parked);
        return end;
      },
      (error: unknown) => {
        // The journal knows whether it was dispatched, and will not give it out again.
        this.#waitAgain(parked);
        throw error;
      },
    );
    parked.deciding = deciding;
    return deciding;
  }

  #waitAgain(parked: ParkedCall): void {
    parked.deciding = undefined;
    this.#lookLater();
  }

  async #confirm(plan: PlannedCall, by: Caller): Promise<Decided> {
    const confirmed = entries.answeredEntry(plan, "confirmed", by);
    const refusal = this.#planner.changed(plan);
    if (refusal) {
      const result = entries.resultEntry(entries.place(plan), refusal);
      return over(await this.#undispatched(plan, refusal, [confirmed, result]));
    }
    try {
      this.#release(plan.callId);
      if (!this.#journal.claim(plan.callId)) {
        const ended = this.#ends.find(plan.callId)?.end;
        return over(ended ? replayed(ended) : refusedEnd(plan, unknownCall(plan.callId)));
      }
    } catch (error) {
      return this.#waitsOn(plan, ledgerUnavailable(error));
    }
    const dispatched = await this.#dispatcher.run(plan, {
      before: [confirmed],
      dispatch: entries.dispatchEntry(plan),
    });
    if (isDispatched(dispatched)) return over(await this.#ends.dispatched(plan, dispatched, true));
    this.#mustRelease.add(plan.callId);
    try {
      this.#release(plan.callId);
    } catch (err) {
      this.#logger.warn({ err, call: plan.callId }, "the journal lags behind a parked call");
    }
    return this.#waitsOn(plan, dispatched);
  }

  /** Holds even where the ledger cannot be written: nothing is done either way. */
  async #decline(plan: PlannedCall, by: Caller): Promise<Decided> {
    const entry = entries.answeredEntry(plan, "declined", by);
    const refusal = denied("declined", `${plan.tool.title} was declined`);
    return over(await this.#undispatched(plan, refusal, [entry]));
  }

  async #expire(plan: PlannedCall): Promise<Decided> {
    const entry = entries.expiredEntry(entries.place(plan), "expired");
    const refusal = denied("expired", `${plan.tool.title} was not confirmed in time`);
    return over(await this.#undispatched(plan, refusal, [entry]));
  }

  async #undispatched(
    plan: PlannedCall,
    refusal: Refusal,
    told: readonly NewEntry[],
  ): Promise<CallEnd> {
    try {
      this.#release(plan.callId);
    } catch {
      // The journal does not take the end either, then, and says so there.
    }
    return this.#ends.undispatched(plan, refusal, told);
  }

  #waitsOn(plan: PlannedCall, refusal: Refusal): Decided {
    const message = `${refusal.message}; the call waits for confirmation as before`;
    return { end: refusedEnd(plan, { ...refusal, message }), isOver: false };
  }

  #release(callId: number): void {
    if (!this.#mustRelease.has(callId)) return;
    this.#journal.release(callId);
    this.#mustRelease.delete(callId);
  }

  #append(list: readonly NewEntry[]): ReturnType<typeof appendTogether> {
    return appendTogether(this.#ledger, list, this.#logger);
  }

  #refused(plan: PlannedCall, refusal: Refusal, written: readonly Receipt[] | Refusal): CallAnswer {
    const end = isRefusal(written)
      ? refusedEnd(plan, written)
      : refusedEnd(plan, refusal, written[0]);
    return { callId: plan.callId, disposition: end.status, detail: end.detail };
  }

  #isDue(parked: ParkedCall): boolean {
    return this.#bootClock.now() >= parked.expiresBootMs;
  }

  #lookLater(): void {
    const waiting = [...this.#parked.values()].filter(({ deciding }) => deciding === undefined);
    if (this.#cancelTimer || this.#tasks.signal.aborted || waiting.length === 0) return;
    const nextMs = Math.min(...waiting.map(({ expiresBootMs }) => expiresBootMs));
    const waitMs = Math.max(0, Math.min(LOOK_MS_MAX, nextMs - this.#bootClock.now()));
    this.#cancelTimer = this.#clock.setTimer(waitMs, () => {
      this.#cancelTimer = undefined;
      this.#tasks.run("expire parked calls", () => this.#expireDue());
    });
  }

  async #expireDue(): Promise<void> {
    const due = [...this.#parked.values()].filter(
      (parked) => parked.deciding === undefined && this.#isDue(parked),
    );
    await Promise.all(due.map((parked) => this.#decide(parked, () => this.#expire(parked.plan))));
    this.#lookLater();
  }
}

function over(end: CallEnd): Decided {
  return { end, isOver: true };
}

export function unknownCall(callId: number): Refusal {
  return failed("unknown_call", `no call ${callId} waits for confirmation, or has waited lately`);
}
