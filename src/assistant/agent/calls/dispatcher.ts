import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { JsonObject } from "../port.ts";
import { ToolAppError, type ToolApps } from "../tool-apps.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";
import { appendBatch, isRefusal } from "./append-batch.ts";
import { type CallOutcome, toFailedOutcome, toOutcome } from "./call-outcome.ts";
import type { LiveDefinitions } from "./live-definitions.ts";
import { type CallRefusal, failedRefusal } from "./planned-call.ts";

export interface ToolInvocation {
  readonly app: AppManifest;
  readonly tool: ToolDeclaration;
  readonly args: JsonObject;
}

/** What came of it: `dispatch` stands in the ledger, and the app may have been reached. */
export interface DispatchResult {
  readonly dispatch: Receipt;
  readonly outcome: CallOutcome;
  readonly ms: number;
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
 * The one place where a tool is called: calls, confirmed calls and compensations. The app, its activation
 * included, is not reached before the COMMIT of the dispatch entry, and never twice for one entry.
 */
export class Dispatcher {
  readonly #dependencies: DispatcherDependencies;

  constructor(dependencies: DispatcherDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Writes `before` and then `dispatch` in one commit, and calls the tool. A refusal: the ledger did not take
   * them, and nothing has happened. Never rejects.
   */
  async dispatch(
    call: ToolInvocation,
    entries: { readonly before: readonly NewEntry[]; readonly dispatch: NewEntry },
  ): Promise<DispatchResult | CallRefusal> {
    if (this.#dependencies.lifetime.aborted)
      return failedRefusal("ledger_unavailable", "the assistant is shutting down");
    const receipts = await appendBatch(
      this.#dependencies.ledger,
      [...entries.before, entries.dispatch],
      this.#dependencies.logger,
    );
    if (isRefusal(receipts)) return receipts;
    const dispatch = receipts.at(-1);
    if (!dispatch) return failedRefusal("ledger_unavailable", "the ledger gave no receipt");
    const startedMs = this.#dependencies.clock.now();
    const outcome = await this.#callTool(call);
    return { dispatch, outcome, ms: Math.max(0, this.#dependencies.clock.now() - startedMs) };
  }

  async #callTool({ app, tool, args }: ToolInvocation): Promise<CallOutcome> {
    try {
      const refusal = await this.#dependencies.definitions.check(
        app,
        tool,
        this.#dependencies.lifetime,
      );
      if (refusal) return refusal;
      return toOutcome(
        await this.#dependencies.apps.call(app, tool.name, args, this.#dependencies.lifetime),
      );
    } catch (err) {
      if (err instanceof ToolAppError) return toFailedOutcome(err);
      if (this.#dependencies.lifetime.aborted)
        return failedRefusal("interrupted", "the assistant was shut down before the app answered");
      // A fault of ours. Whether the tool ran is not known, which is what this code says.
      this.#dependencies.logger.error(
        { err, app: app.appId, tool: tool.name },
        "a call of a tool failed",
      );
      return failedRefusal("transport_closed", `the call of ${tool.name} broke off`);
    }
  }
}

export function isDispatched(value: DispatchResult | CallRefusal): value is DispatchResult {
  return "dispatch" in value;
}
