import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ContextService } from "../context/port.ts";
import type { DataClass } from "../data-class.ts";
import type { ModelRoutes } from "../inference/routing/port.ts";
import type { InferenceService } from "../inference/service-port.ts";
import type { Ledger } from "../ledger/port.ts";
import type { AgentPass } from "./agent-pass/port.ts";
import type { OverlayUi } from "./ui/port.ts";

export interface OverlayDependencies {
  /** Inference with local and remote models, chosen by name. */
  readonly inference: InferenceService;
  readonly routes: ModelRoutes;
  readonly context: ContextService;
  readonly remote: RemoteRules;
  readonly agentPass: AgentPass;
  readonly ui: OverlayUi;
  readonly ledger: Ledger;
  readonly facts: OverlayFacts;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: OverlayLimits | undefined;
}

/** The rules for remote models that a turn checks before it uses a provider. */
export interface RemoteRules {
  /** Returns those of the given data classes that the user has not allowed to leave the machine. */
  missing(classes: readonly DataClass[]): readonly DataClass[];
  /**
   * Returns the address of a provider, whether or not it has a credential; undefined if the provider does not exist.
   */
  addressOf(providerId: string): string | undefined;
}

/** Facts for the answer to GetStatus, which come from other parts of the daemon. */
export interface OverlayFacts {
  readonly version: string;
  httpPort(): number;
  ledger(): { readonly ok: boolean; readonly size: number };
  /** The data classes that the user allows to leave the machine. */
  consent(): readonly DataClass[];
  /** Ids of the providers that have a credential. */
  providers(): readonly string[];
  /** The default local model; undefined if there is none. Rejects with `no_model` and the reason if none can be reached. */
  localModel(signal: AbortSignal): Promise<string | undefined>;
}

export interface OverlayLimits {
  readonly running: number;
  readonly waiting: number;
  /**
   * The number of queries that are accepted in addition to `running` and `waiting`, only for clients without another
   * query, so that one client cannot use up all capacity. All connections of a sandboxed app are one client.
   */
  readonly reservedForNew: number;
  /** The maximum number of queries of one sandboxed app, so that other sandboxed apps can send queries too. */
  readonly perSandboxedApp: number;
  /**
   * The part of the capacity that is reserved for the user's own programs, whatever the number of sandboxed apps:
   * `slots` of `running`, and `queries` of `running` and `waiting` together.
   */
  readonly reservedForPerson: { readonly slots: number; readonly queries: number };
  /** Milliseconds to wait for the user's answer to a question. */
  readonly answerTimeoutMs: number;
}

export const defaultOverlayLimits: OverlayLimits = {
  running: 4,
  waiting: 16,
  reservedForNew: 4,
  perSandboxedApp: 8,
  reservedForPerson: { slots: 1, queries: 4 },
  // `answerTimeoutMs` equals the time for which Agent1 keeps a parked call, so that the user can answer as long as the
  // call can be confirmed.
  answerTimeoutMs: 300_000,
};
