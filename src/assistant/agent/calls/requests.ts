import type { Logger } from "../../../base/logger.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { CallAnswer, CallDetail, CallEnd, CallRequest, LedgerPlace } from "../port.ts";
import type { Admission } from "./admission.ts";
import { appendTogether, isRefusal, ledgerUnavailable } from "./append-together.ts";
import type { CallEnds } from "./call-ends.ts";
import type { CallIds } from "./call-ids.ts";
import { type Dispatcher, isDispatched } from "./dispatcher.ts";
import { asRequested, dispatchEntry, place, requestedEntry, resultEntry } from "./entries.ts";
import type { Journal } from "./journal.ts";
import type { LiveDefinitions } from "./live-definitions.ts";
import type { Parking } from "./parking.ts";
import { type PlannedCall, type Refusal, refusedEnd } from "./planned-call.ts";
import type { Planner, RefusedCall } from "./planner.ts";

/** Names in an answer are cut to what a name can be. */
const NAME_CHARS_MAX = 256;

/** From a request to its answer: refused, run at once, or parked. */
export class Requests {
  readonly #ledger: Ledger;
  readonly #journal: Journal;
  readonly #planner: Planner;
  readonly #dispatcher: Dispatcher;
  readonly #ends: CallEnds;
  readonly #admission: Admission;
  readonly #ids: CallIds;
  readonly #parking: Parking;
  readonly #definitions: LiveDefinitions;
  readonly #life: AbortSignal;
  readonly #logger: Logger;

  constructor(options: {
    readonly ledger: Ledger;
    readonly journal: Journal;
    readonly planner: Planner;
    readonly dispatcher: Dispatcher;
    readonly ends: CallEnds;
    readonly admission: Admission;
    readonly ids: CallIds;
    readonly parking: Parking;
    readonly definitions: LiveDefinitions;
    /** Of the daemon. */
    readonly life: AbortSignal;
    readonly logger: Logger;
  }) {
    this.#ledger = options.ledger;
    this.#journal = options.journal;
    this.#planner = options.planner;
    this.#dispatcher = options.dispatcher;
    this.#ends = options.ends;
    this.#admission = options.admission;
    this.#ids = options.ids;
    this.#parking = options.parking;
    this.#definitions = options.definitions;
    this.#life = options.life;
    this.#logger = options.logger;
  }

  /** Rejects with `ledger_unavailable` where the journal has no number left for the call. */
  async request(request: CallRequest, caller: Caller): Promise<CallAnswer> {
    const callId = this.#ids.next();
    const held = this.#admission.enter(caller, request.argsJson.length);
    if (held) {
      const call = this.#planner.unplanned(callId, request, caller, held.refusal);
      // The first of a flood is enough: an entry for each would make it a flood of the ledger.
      return held.isFirst ? this.#refuse(call) : answerOf(call);
    }
    try {
      const plan = this.#planner.plan(callId, request, caller);
      if ("refusal" in plan) return await this.#refuse(plan);
      const { disposition } = plan.decision;
      if (disposition !== "run") {
        const refusal = await this.#definitions.knownRefusal(plan.app, plan.tool, this.#life);
        if (refusal) return await this.#refuse({ refusal, requested: asRequested(plan) });
        return await this.#parking.park(plan, disposition);
      }
      const end = await this.#run(plan);
      return { callId, disposition: end.status, detail: end.detail };
    } finally {
      this.#admission.leave(caller);
    }
  }

  async #refuse(call: RefusedCall): Promise<CallAnswer> {
    const { refusal, requested } = call;
    const { callId, appId: app, tool } = requested;
    const result = resultEntry({ call: callId, app, tool }, refusal);
    const entries = [requestedEntry(requested), result];
    const receipts = await appendTogether(this.#ledger, entries, this.#logger);
    return isRefusal(receipts)
      ? answerOf({ ...call, refusal: receipts })
      : answerOf(call, receipts[0]);
  }

  /** At once. Only what can be undone has a place in the journal. */
  async #run(plan: PlannedCall): Promise<CallEnd> {
    const isJournaled = plan.tool.undo !== undefined;
    if (isJournaled) {
      try {
        const requester = sandboxedApp(plan.caller);
        this.#journal.add({ ...place(plan), requester, argsText: plan.argsText }, "dispatching");
      } catch (error) {
        return refusedEnd(plan, ledgerUnavailable(error));
      }
    }
    const dispatched = await this.#dispatcher.run(plan, {
      before: [requestedEntry(asRequested(plan))],
      dispatch: dispatchEntry(plan),
    });
    if (isDispatched(dispatched)) return this.#ends.dispatched(plan, dispatched, isJournaled);
    if (isJournaled) this.#forget(plan.callId);
    return refusedEnd(plan, dispatched);
  }

  #forget(callId: number): void {
    try {
      this.#journal.forget(callId);
    } catch (err) {
      // The next start ends it as interrupted, which says too much, but nothing wrong.
      this.#logger.warn({ err, call: callId }, "the journal lags behind a call that did not run");
    }
  }
}

function answerOf({ refusal, requested }: RefusedCall, ledger?: LedgerPlace): CallAnswer {
  const { status, ...rest } = refusal satisfies Refusal;
  const { callId, appId, tool, tiers, chain } = requested;
  const detail: CallDetail = {
    v: 1,
    app_id: appId.slice(0, NAME_CHARS_MAX),
    tool: tool.slice(0, NAME_CHARS_MAX),
    ...(tiers ? { tier: tiers.declared, effective_tier: tiers.effective } : {}),
    chain,
    ...rest,
    ...(ledger ? { ledger } : {}),
  };
  return { callId, disposition: status, detail };
}
