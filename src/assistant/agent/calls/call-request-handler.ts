import type { Logger } from "../../../base/logger.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { Ledger } from "../../ledger/port.ts";
import type { CallAnswer, CallDetail, CallRequest, CallResult, LedgerReference } from "../port.ts";
import { appendBatch, isRefusal, ledgerUnavailableRefusal } from "./append-batch.ts";
import type { CallCompletionRecorder } from "./call-completion.ts";
import {
  dispatchEntry,
  requestedEntry,
  resultEntry,
  toCallReference,
  toRequestedCall,
} from "./call-entries.ts";
import type { CallIds } from "./call-ids.ts";
import type { CallJournal } from "./call-journal.ts";
import type { CallPlanner, RefusedCall } from "./call-planner.ts";
import type { CallerQuotas } from "./caller-quotas.ts";
import { type Dispatcher, isDispatched } from "./dispatcher.ts";
import type { LiveDefinitions } from "./live-definitions.ts";
import type { PendingConfirmations } from "./pending-confirmations.ts";
import { type CallRefusal, type PlannedCall, toRefusedResult } from "./planned-call.ts";

/** Names in an answer are cut to this length. */
const NAME_CHARS_MAX = 256;

interface CallRequestDependencies {
  readonly ledger: Ledger;
  readonly journal: CallJournal;
  readonly planner: CallPlanner;
  readonly dispatcher: Dispatcher;
  readonly completions: CallCompletionRecorder;
  readonly quotas: CallerQuotas;
  readonly ids: CallIds;
  readonly pendingConfirmations: PendingConfirmations;
  readonly definitions: LiveDefinitions;
  /** A signal that aborts when the daemon stops. */
  readonly lifetime: AbortSignal;
  readonly logger: Logger;
}

/** Answers a request: refuses it, runs it at once, or parks it. */
export class CallRequestHandler {
  readonly #dependencies: CallRequestDependencies;

  constructor(dependencies: CallRequestDependencies) {
    this.#dependencies = dependencies;
  }

  /** Rejects with `ledger_unavailable` if the journal cannot reserve an id for the call. */
  async handle(request: CallRequest, caller: Caller): Promise<CallAnswer> {
    const { ids, quotas, planner, definitions, lifetime, pendingConfirmations } =
      this.#dependencies;
    const callId = ids.next();
    const throttled = quotas.startCall(caller, request.argsJson.length);
    if (throttled) {
      const call = planner.refuseUnplanned(callId, request, caller, throttled.refusal);
      // Only the first refusal of a burst has a ledger entry; otherwise a flood of calls would flood the ledger.
      return throttled.isFirst ? this.#refuse(call) : toCallAnswer(call);
    }
    try {
      const plan = planner.plan(callId, request, caller);
      if ("refusal" in plan) return await this.#refuse(plan);
      const { disposition } = plan.decision;
      if (disposition !== "run") {
        const refusal = await definitions.precheck(plan.app, plan.tool, lifetime);
        if (refusal) return await this.#refuse({ refusal, requested: toRequestedCall(plan) });
        return await pendingConfirmations.park(plan, disposition);
      }
      const end = await this.#run(plan);
      return { callId, disposition: end.status, detail: end.detail };
    } finally {
      quotas.endCall(caller);
    }
  }

  async #refuse(call: RefusedCall): Promise<CallAnswer> {
    const { ledger, logger } = this.#dependencies;
    const { refusal, requested } = call;
    const { callId, appId: app, tool } = requested;
    const result = resultEntry({ call: callId, app, tool }, refusal);
    const entries = [requestedEntry(requested), result];
    const receipts = await appendBatch(ledger, entries, logger);
    return isRefusal(receipts)
      ? toCallAnswer({ ...call, refusal: receipts })
      : toCallAnswer(call, receipts[0]);
  }

  /** Runs a call at once. Only a call that can be undone has a row in the journal. */
  async #run(plan: PlannedCall): Promise<CallResult> {
    const { journal, dispatcher, completions } = this.#dependencies;
    const isJournaled = plan.tool.undo !== undefined;
    if (isJournaled) {
      try {
        const requester = sandboxedApp(plan.caller);
        journal.add(
          { ...toCallReference(plan), requester, argsText: plan.argsText },
          "dispatching",
        );
      } catch (error) {
        return toRefusedResult(plan, ledgerUnavailableRefusal(error));
      }
    }
    const dispatched = await dispatcher.dispatch(plan, {
      before: [requestedEntry(toRequestedCall(plan))],
      dispatch: dispatchEntry(plan),
    });
    if (isDispatched(dispatched))
      return completions.recordDispatched(plan, dispatched, isJournaled);
    if (isJournaled) this.#forget(plan.callId);
    return toRefusedResult(plan, dispatched);
  }

  #forget(callId: number): void {
    const { journal, logger } = this.#dependencies;
    try {
      journal.forget(callId);
    } catch (err) {
      // If this deletion fails, the next daemon reports the call as interrupted, although the call was never sent to
      // the app.
      logger.warn({ err, call: callId }, "the journal could not delete a call that did not run");
    }
  }
}

function toCallAnswer({ refusal, requested }: RefusedCall, ledger?: LedgerReference): CallAnswer {
  const { status, ...rest } = refusal satisfies CallRefusal;
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
