import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Ledger, NewEntry, Receipt } from "../../ledger/port.ts";
import type { AppManifest, ToolDeclaration } from "../manifest.ts";
import type { JsonObject } from "../port.ts";
import { ToolAppError, type ToolApps } from "../tool-apps.ts";
import { appendTogether, isRefusal } from "./append-together.ts";
import type { LiveDefinitions } from "./live-definitions.ts";
import { type Outcome, outcomeOf, outcomeOfError } from "./outcome.ts";
import { failed, type Refusal } from "./planned-call.ts";

export interface ToolCall {
  readonly app: AppManifest;
  readonly tool: ToolDeclaration;
  readonly args: JsonObject;
}

/** What came of it: `dispatch` stands in the ledger, and the app may have been reached. */
export interface Dispatched {
  readonly dispatch: Receipt;
  readonly outcome: Outcome;
  readonly ms: number;
}

/**
 * The one place where a tool is called: calls, confirmed calls and compensations. The app, its activation
 * included, is not reached before the COMMIT of the dispatch entry, and never twice for one entry.
 */
export class Dispatcher {
  readonly #apps: ToolApps;
  readonly #ledger: Ledger;
  readonly #definitions: LiveDefinitions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Of the daemon's life: a requester that goes away does not cut off what has begun. */
  readonly #life: AbortSignal;

  constructor(options: {
    readonly apps: ToolApps;
    readonly ledger: Ledger;
    readonly definitions: LiveDefinitions;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly life: AbortSignal;
  }) {
    this.#apps = options.apps;
    this.#ledger = options.ledger;
    this.#definitions = options.definitions;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#life = options.life;
  }

  /**
   * Writes `before` and then `dispatch` in one commit, and calls the tool. A refusal: the ledger did not take
   * them, and nothing has happened. Never rejects.
   */
  async run(
    call: ToolCall,
    entries: { readonly before: readonly NewEntry[]; readonly dispatch: NewEntry },
  ): Promise<Dispatched | Refusal> {
    if (this.#life.aborted) return failed("ledger_unavailable", "the assistant is shutting down");
    const receipts = await appendTogether(
      this.#ledger,
      [...entries.before, entries.dispatch],
      this.#logger,
    );
    if (isRefusal(receipts)) return receipts;
    const dispatch = receipts.at(-1);
    if (!dispatch) return failed("ledger_unavailable", "the ledger gave no receipt");
    const startedMs = this.#clock.now();
    const outcome = await this.#outcome(call);
    return { dispatch, outcome, ms: Math.max(0, this.#clock.now() - startedMs) };
  }

  async #outcome({ app, tool, args }: ToolCall): Promise<Outcome> {
    try {
      const refusal = await this.#definitions.refusal(app, tool, this.#life);
      if (refusal) return refusal;
      return outcomeOf(await this.#apps.call(app, tool.name, args, this.#life));
    } catch (err) {
      if (err instanceof ToolAppError) return outcomeOfError(err);
      if (this.#life.aborted)
        return failed("interrupted", "the assistant was shut down before the app answered");
      // A fault of ours. Whether the tool ran is not known, which is what this code says.
      this.#logger.error({ err, app: app.appId, tool: tool.name }, "a call of a tool failed");
      return failed("transport_closed", `the call of ${tool.name} broke off`);
    }
  }
}

export function isDispatched(value: Dispatched | Refusal): value is Dispatched {
  return "dispatch" in value;
}
