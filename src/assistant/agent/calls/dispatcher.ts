import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { JsonObject } from "../port.ts";
import { ToolAppError, type ToolApps } from "../tool-apps.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";
import { appendBatch, isRefusal } from "./append-batch.ts";
import {
  type CallOutcome,
  toFailedOutcome,
  toLateOutcome,
  toOutcome,
  toSentOutcome,
} from "./call-outcome.ts";
import type { LiveDefinitions } from "./live-definitions.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

export interface ToolInvocation {
  readonly app: AppManifest;
  readonly tool: ToolDeclaration;
  readonly args: JsonObject;
}

/** The outcome of a call, and the milliseconds from its dispatch to this outcome. */
export interface TimedOutcome {
  readonly outcome: CallOutcome;
  readonly ms: number;
}

/** The result of a call whose `dispatch` entry is in the ledger; the app may have been called. */
export interface DispatchResult extends TimedOutcome {
  readonly dispatch: Receipt;
  /**
   * Only for a call that exceeded its time limit: the outcome that the late answer of the app gives the call, or
   * undefined if the outcome stays unknown. Never rejects, and may be pending for several minutes.
   */
  readonly late: Promise<TimedOutcome | undefined> | undefined;
}

interface DispatcherDependencies {
  readonly apps: ToolApps;
  readonly ledger: Ledger;
  readonly definitions: LiveDefinitions;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lifetime: AbortSignal;
}

/**
 * The only code that calls tools: calls that run at once, confirmed calls and compensations. An app is neither
 * started nor called before the commit of the dispatch entry, and never called twice for one entry.
 */
export class Dispatcher {
  readonly #dependencies: DispatcherDependencies;

  constructor(dependencies: DispatcherDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Appends the entries `before` and `dispatch` in one commit and then calls the tool. Returns a refusal without
   * calling the tool if the ledger rejects the entries. Never rejects.
   */
  async dispatch(
    call: ToolInvocation,
    entries: { readonly before: readonly NewEntry[]; readonly dispatch: NewEntry },
  ): Promise<DispatchResult | CallRefusal> {
    const { lifetime, ledger, logger, clock } = this.#dependencies;
    if (lifetime.aborted)
      return failedRefusal("ledger_unavailable", "the assistant is shutting down");
    const receipts = await appendBatch(ledger, [...entries.before, entries.dispatch], logger);
    if (isRefusal(receipts)) return receipts;
    const dispatch = receipts.at(-1);
    if (!dispatch) return failedRefusal("ledger_unavailable", "the ledger returned no receipt");
    const startedMs = clock.now();
    const withTime = (outcome: CallOutcome) => ({
      outcome,
      ms: Math.max(0, clock.now() - startedMs),
    });
    const { outcome, answer } = await this.#callTool(call);
    const late = answer?.then((given) => {
      const known = toLateOutcome(given);
      return known && withTime(known);
    });
    return { dispatch, ...withTime(outcome), late };
  }

  async #callTool({ app, tool, args }: ToolInvocation): Promise<{
    readonly outcome: CallOutcome;
    /** The late answer of the app; undefined if the app cannot answer any more. */
    readonly answer?: ToolAppError["late"];
  }> {
    const { definitions, lifetime, apps } = this.#dependencies;
    try {
      const refusal = await definitions.check(app, tool, lifetime);
      if (refusal) return { outcome: refusal };
    } catch (error) {
      return { outcome: this.#toRefusal(error, app, tool) };
    }
    try {
      return { outcome: toSentOutcome(toOutcome(await apps.call(app, tool.name, args, lifetime))) };
    } catch (error) {
      const outcome = toSentOutcome(this.#toRefusal(error, app, tool));
      return { outcome, answer: error instanceof ToolAppError ? error.late : undefined };
    }
  }

  #toRefusal(err: unknown, app: AppManifest, tool: ToolDeclaration): CallRefusal {
    const { lifetime, logger } = this.#dependencies;
    if (err instanceof ToolAppError) return toFailedOutcome(err);
    if (lifetime.aborted)
      return failedRefusal("interrupted", "the assistant was shut down before the app answered");
    // Only a bug in Berth can lead to this point. The code `transport_closed` means that it is unknown whether the
    // tool ran.
    logger.error({ err, app: app.appId, tool: tool.name }, "a tool call failed unexpectedly");
    return failedRefusal(
      "transport_closed",
      `an internal error interrupted the call of ${tool.name}`,
    );
  }
}

export function isDispatched(value: DispatchResult | CallRefusal): value is DispatchResult {
  return "dispatch" in value;
}
