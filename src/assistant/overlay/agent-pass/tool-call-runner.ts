import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import type { AgentService, CallRequest, CallResult } from "../../agent/port.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Caller } from "../../caller.ts";
import { DeniedError } from "../denied-error.ts";
import { CallWatcher } from "./call-watcher.ts";
import type { PassTurn } from "./port.ts";

/** How a call ended. `denied` only where no person was asked. */
export interface ToolCallResult extends CallResult {
  readonly callId: number;
}

type CallTurn = Pick<PassTurn, "caller" | "ask" | "onCall">;

/** `error` is why the turn cannot go on; undefined: it can. */
interface SettledCall {
  readonly end: CallResult;
  readonly error: unknown;
}

/**
 * One call from its request to its end, with a person's answer in between:
 *
 *   requested -> ended                                  at once, or refused
 *   requested -> parked -> asked -> confirmed -> ended   they said yes
 *                                -> taken back           they said no, or could not be asked
 *                                -> ended                somebody else was asked too, and was quicker
 *
 * A turn that ends meanwhile takes back what is parked. What has been dispatched cannot be taken back: it runs
 * on to its end in the ledger, and nobody waits for it.
 */
export class ToolCallRunner {
  readonly #agent: AgentService;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;

  constructor(options: {
    readonly agent: AgentService;
    /** In it calls are taken back for whose end no turn waits. */
    readonly tasks: TaskGroup;
    readonly logger: Logger;
  }) {
    this.#agent = options.agent;
    this.#tasks = options.tasks;
    this.#logger = options.logger;
  }

  /**
   * Rejects with DeniedError where a person said no or did not answer, here or elsewhere; with `ledger_unavailable`;
   * with `forbidden` where whoever said yes may not; with what `ask` rejects with; with the signal's reason.
   * However it rejects, the call does not wait for anybody any more.
   */
  async call(request: CallRequest, turn: CallTurn, signal: AbortSignal): Promise<ToolCallResult> {
    const { appId, tool } = request;
    using watch = new CallWatcher(this.#agent, request);
    const requested = this.#agent.requestCall(request, turn.caller, signal);
    const answer = await raceWithAbort(requested, signal).catch((error: unknown) => {
      if (signal.aborted) this.#scheduleWithdrawal(requested.then(getParkedId), turn.caller);
      throw error;
    });
    const { callId, disposition, detail } = answer;
    this.#logger.debug({ call: callId, disposition }, "the overlay asked for a tool");
    const { end, error } =
      disposition === "confirm-chip" || disposition === "confirm-modal"
        ? await this.#awaitAnswer(callId, watch, turn, signal)
        : toSettledCall({ status: disposition, detail });
    turn.onCall?.({ call_id: callId, app_id: appId, tool, status: end.status });
    if (error !== undefined) throw error;
    return { ...end, callId };
  }

  async #awaitAnswer(
    callId: number,
    watch: CallWatcher,
    turn: CallTurn,
    signal: AbortSignal,
  ): Promise<SettledCall> {
    const { caller } = turn;
    try {
      const approver = await this.#ask(callId, watch, turn, signal);
      // Of a call that has ended, to take it back only tells how.
      const ending = approver
        ? this.#agent.confirm(callId, true, approver)
        : this.#agent.withdraw(callId, caller);
      const end = await raceWithAbort(ending, signal);
      const { code, message } = end.detail;
      if (code === "ledger_unavailable") throw new AssistantError(code, message);
      return { end, error: end.status === "denied" ? new DeniedError(code, message) : undefined };
    } catch (error) {
      if (signal.aborted) {
        this.#scheduleWithdrawal(Promise.resolve(callId), caller);
        throw error;
      }
      return { end: await raceWithAbort(this.#agent.withdraw(callId, caller), signal), error };
    }
  }

  /** Who said yes; undefined: the call has ended, because somebody else has answered, or nobody in time. */
  async #ask(
    callId: number,
    watch: CallWatcher,
    turn: CallTurn,
    signal: AbortSignal,
  ): Promise<Caller | undefined> {
    if (watch.isResolved(callId)) return undefined;
    const spec = watch.spec(callId);
    if (!spec) throw new AssistantError("internal", "nobody was asked about a call that waits");
    const question = new AbortController();
    const onAbort = () => question.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    watch.onResolved(callId, () => question.abort(new DOMException("answered", "AbortError")));
    try {
      return await raceWithAbort(turn.ask(spec, question.signal), question.signal);
    } catch (error) {
      if (watch.isResolved(callId) && !signal.aborted) return undefined;
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Whoever else is answering it right now is waited for, but not by the turn. */
  #scheduleWithdrawal(parked: Promise<number | undefined>, caller: Caller): void {
    this.#tasks.run("withdraw a call", async () => {
      const callId = await parked.catch(() => undefined);
      if (callId !== undefined) await this.#agent.withdraw(callId, caller);
    });
  }
}

function toSettledCall(end: CallResult): SettledCall {
  const { code, message } = end.detail;
  const error = code === "ledger_unavailable" ? new AssistantError(code, message) : undefined;
  return { end, error };
}

function getParkedId({ callId, disposition }: { callId: number; disposition: string }) {
  return disposition.startsWith("confirm-") ? callId : undefined;
}
