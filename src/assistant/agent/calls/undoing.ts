import type { Logger } from "../../../base/logger.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import { AssistantError } from "../../errors.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { UndoReport } from "../port.ts";
import { appendTogether, isRefusal, ledgerUnavailable } from "./append-together.ts";
import { type Dispatched, type Dispatcher, isDispatched, type ToolCall } from "./dispatcher.ts";
import { undoDispatchEntry, undoResultEntry } from "./entries.ts";
import type { Journal, UndoableCall } from "./journal.ts";
import type { OwedEntries } from "./owed-entries.ts";
import type { Refusal } from "./planned-call.ts";
import type { Planner } from "./planner.ts";

/**
 * Takes calls back, the last one first, one at a time. The arguments of a compensation were fixed when its
 * call was executed; it needs no confirmation of its own, since it was part of what was confirmed.
 *
 *   journal: running, one attempt more -> ledger: agent.undo.dispatch -> app
 *   -> ledger: agent.undo.result -> journal: undone, or ready again
 *
 * One that failed, or was under way when the daemon died, is tried again by the next Undo, as an attempt of
 * its own: whether it ran is not known, and only a person can tell, who may skip it.
 */
export class Undoing {
  readonly #ledger: Ledger;
  readonly #journal: Journal;
  readonly #planner: Planner;
  readonly #dispatcher: Dispatcher;
  readonly #owed: OwedEntries;
  readonly #logger: Logger;
  #isBusy = false;
  /** Undone, though the journal did not take it: never again in this life. */
  readonly #done = new Set<number>();

  constructor(options: {
    readonly ledger: Ledger;
    readonly journal: Journal;
    readonly planner: Planner;
    readonly dispatcher: Dispatcher;
    readonly owed: OwedEntries;
    readonly logger: Logger;
  }) {
    this.#ledger = options.ledger;
    this.#journal = options.journal;
    this.#planner = options.planner;
    this.#dispatcher = options.dispatcher;
    this.#owed = options.owed;
    this.#logger = options.logger;
  }

  /**
   * The last call that can be undone; for a sandboxed app the last that it asked for itself. Rejects with
   * `busy` while another one runs: whoever presses the button twice wants one call back, not two.
   */
  async undo(caller: Caller): Promise<UndoReport> {
    return this.#alone(async () => {
      const owner = sandboxedApp(caller);
      const top = this.#journal.undoTop(owner, this.#done);
      if (!top) return nothing();
      const compensation = this.#compensation(top);
      if ("code" in compensation) return this.#failed(top, caller, compensation, top.attempts);
      try {
        this.#journal.undoStarted(top.call);
      } catch (error) {
        return this.#failed(top, caller, ledgerUnavailable(error), top.attempts);
      }
      const attempts = top.attempts + 1;
      const place = { call: top.call, app: top.app, tool: compensation.tool.name };
      const details = { attempt: attempts, by: caller, argsText: top.compensation.argsText };
      const dispatch = undoDispatchEntry(place, details);
      const dispatched = await this.#dispatcher.run(compensation, { before: [], dispatch });
      if (!isDispatched(dispatched)) {
        this.#notStarted(top.call);
        return this.#failed(top, caller, dispatched, top.attempts);
      }
      return this.#ended(top, caller, dispatched, attempts);
    });
  }

  /**
   * That call stays as it is. Rejects with `not_found` where it cannot be undone anyway, with `forbidden`
   * where a sandboxed app did not ask for it, and with `busy`.
   */
  async skip(callId: number, caller: Caller): Promise<UndoReport> {
    return this.#alone(async () => {
      const call = this.#journal.undoable(callId);
      const owner = sandboxedApp(caller);
      if (owner !== undefined && call?.requester !== owner)
        throw new AssistantError("forbidden", `call ${callId} is not one that ${owner} asked for`);
      if (!call || this.#done.has(callId))
        throw new AssistantError("not_found", `call ${callId} is not one that can be undone`);
      const place = { call: call.call, app: call.app, tool: call.compensation.tool };
      const entry = undoResultEntry(place, { status: "skipped", code: "ok" });
      const receipts = await appendTogether(this.#ledger, [entry], this.#logger);
      if (isRefusal(receipts)) return this.#failed(call, caller, receipts, call.attempts);
      try {
        this.#journal.undoEnded(callId, "skipped", []);
      } catch (error) {
        return this.#failed(call, caller, ledgerUnavailable(error), call.attempts);
      }
      return this.#report(call, caller, "skipped", call.attempts, { ledger: receipts[0] });
    });
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isBusy)
      throw new AssistantError("busy", "another call is being undone; try again when it is", {
        retryAfterSeconds: 1,
      });
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
    }
  }

  /** What would be called, as it is declared today; or why it may not be. */
  #compensation(top: UndoableCall): ToolCall | Refusal {
    const found = this.#planner.find(top.app, top.compensation.tool);
    if ("code" in found) return found;
    const { args } = top.compensation;
    return (
      this.#planner.disabled(found.app, found.tool) ??
      this.#planner.invalid(found.tool, args) ?? { ...found, args }
    );
  }

  async #ended(
    top: UndoableCall,
    caller: Caller,
    { dispatch, outcome }: Dispatched,
    attempts: number,
  ): Promise<UndoReport> {
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
    const receipts = await appendTogether(this.#ledger, [entry], this.#logger);
    const owed = isRefusal(receipts) ? [entry] : [];
    this.#save(top.call, isUndone, owed);
    if (!isUndone) return this.#failed(top, caller, outcome, attempts, dispatch);
    const result = outcome.structured ?? outcome.content;
    return this.#report(top, caller, "undone", attempts, { ledger: dispatch, result });
  }

  #save(callId: number, isUndone: boolean, owed: readonly NewEntry[]): void {
    try {
      this.#journal.undoEnded(callId, isUndone ? "undone" : "ready", owed);
      if (owed.length > 0) this.#owed.payLater();
    } catch (err) {
      this.#logger.error({ err, call: callId, isUndone }, "the journal did not take an undo");
      if (isUndone) this.#done.add(callId);
      for (const entry of owed) this.#owed.owe(entry);
    }
  }

  #notStarted(callId: number): void {
    try {
      this.#journal.undoNotStarted(callId);
    } catch (err) {
      // It stays `running`, which Undo takes for ready; only an attempt too many is counted.
      this.#logger.warn({ err, call: callId }, "the journal lags behind an undo");
    }
  }

  #failed(
    call: UndoableCall,
    caller: Caller,
    { code, message }: Refusal,
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
      remaining: this.#journal.undoCount(sandboxedApp(caller), this.#done),
      ledger: more.ledger ?? null,
    };
  }
}

function nothing(): UndoReport {
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
