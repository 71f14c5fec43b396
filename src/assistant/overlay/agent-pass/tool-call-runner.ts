import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import type { AgentService, CallRequest, CallResult } from "../../agent/port.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Caller } from "../../caller.ts";
import { DeniedError } from "../denied-error.ts";
import { CallWatcher } from "./call-watcher.ts";
import type { PassTurn } from "./port.ts";

/**
 * The result of a call that has ended. Its status is `denied` if the agent refused the call without asking the user, or
 * if the user declined it (`declined`).
 */
export interface ToolCallResult extends CallResult {
  readonly callId: number;
}

/**
 * The maximum number of questions about one call. The user is asked again if the agent rejects an approval because it
 * came too early.
 */
const EARLY_ASKS_MAX = 3;

type CallTurn = Pick<PassTurn, "caller" | "ask" | "onCall" | "resume">;

/** The end of a tool call. If `error` is set, the whole turn of the query ends with this error. */
interface SettledCall {
  readonly end: CallResult;
  readonly error: unknown;
}

/**
 * Runs one tool call from its request to its end, including the question to the user. The states of a call are:
 *
 * - If no confirmation is needed, or if the call is refused: requested, ended.
 * - If the user approves: requested, parked, asked, confirmed, ended.
 * - If the user declines, or cannot be asked: requested, parked, asked, withdrawn.
 * - If another frontend answers first: requested, parked, asked, ended.
 *
 * If the query's turn ends while a call is parked, the call is withdrawn. A dispatched call cannot be withdrawn: it
 * runs to its end in the ledger, and the turn does not wait for it.
 */
export class ToolCallRunner {
  readonly #agent: AgentService;
  readonly #tasks: TaskGroup;
  readonly #logger: Logger;

  constructor(options: {
    readonly agent: AgentService;
    /** Runs the withdrawals of calls that are still parked when their turn ends, so that no turn waits for them. */
    readonly tasks: TaskGroup;
    readonly logger: Logger;
  }) {
    this.#agent = options.agent;
    this.#tasks = options.tasks;
    this.#logger = options.logger;
  }

  /**
   * Runs one call to its end. If the user declines, in this frontend or in another one, that is the call's result.
   * Rejects with DeniedError if the user did not answer in time, or if the tool changed meanwhile; with
   * `ledger_unavailable`; with `forbidden` if the approving caller may not confirm; with the error of `turn.ask`, which
   * asks the user; with the signal's reason. After a rejection the call is no longer parked: it does not wait for the
   * user.
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
    this.#logger.debug({ call: callId, disposition }, "the overlay requested a tool call");
    const { end, error } =
      disposition === "confirm-chip" || disposition === "confirm-modal"
        ? await this.#awaitAnswer(callId, watch, turn, signal)
        : toSettledCall({ status: disposition, detail });
    turn.onCall?.({ call_id: callId, app_id: appId, tool, status: end.status });
    if (error !== undefined) throw error;
    await turn.resume?.();
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
      const end = await this.#askAndAnswer(callId, watch, turn, signal);
      const { code, message } = end.detail;
      if (code === "ledger_unavailable") throw new AssistantError(code, message);
      const isEnd = end.status === "denied" && code !== "declined";
      return { end, error: isEnd ? new DeniedError(code, message) : undefined };
    } catch (error) {
      if (signal.aborted) {
        this.#scheduleWithdrawal(Promise.resolve(callId), caller);
        throw error;
      }
      const end = await raceWithAbort(this.#agent.withdraw(callId, caller), signal);
      const isDeclined = error instanceof DeniedError && error.code === "declined";
      return { end, error: isDeclined ? undefined : error };
    }
  }

  /**
   * Asks the user, and sends the answer to the agent. If the agent rejects an approval because it came before the hold
   * time had passed, asks again, at most EARLY_ASKS_MAX times in total.
   */
  async #askAndAnswer(
    callId: number,
    watch: CallWatcher,
    turn: CallTurn,
    signal: AbortSignal,
  ): Promise<CallResult> {
    for (let asks = 1; ; asks += 1) {
      const approver = await this.#ask(callId, watch, turn, signal);
      // If the call has already ended, `withdraw` has no effect and only returns the result of the call.
      const ending = approver
        ? this.#agent.confirm(callId, true, approver)
        : this.#agent.withdraw(callId, turn.caller);
      try {
        return await raceWithAbort(ending, signal);
      } catch (error) {
        const isEarly = error instanceof AssistantError && error.code === "busy";
        if (!isEarly || asks === EARLY_ASKS_MAX) throw error;
      }
    }
  }

  /**
   * Asks the user to confirm a call. Returns the caller that approved the call; undefined if the call expired or
   * another frontend answered first.
   */
  async #ask(
    callId: number,
    watch: CallWatcher,
    turn: CallTurn,
    signal: AbortSignal,
  ): Promise<Caller | undefined> {
    if (watch.isResolved(callId)) return undefined;
    const spec = watch.spec(callId);
    if (!spec) throw new AssistantError("internal", "a parked call has no confirmation spec");
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

  /**
   * Withdraws a call in the background. If another frontend is answering at that moment, this task waits for the result
   * of that answer, but the turn does not.
   */
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
