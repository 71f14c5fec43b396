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
  /** Local and remote models, by their names. */
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

/** What a turn has to know of providers before it goes to one. */
export interface RemoteRules {
  /** Of these, those that a person has not allowed to leave. */
  missing(classes: readonly DataClass[]): readonly DataClass[];
  /** Where the provider of this id is, with a credential or without. Undefined: there is no such one. */
  addressOf(providerId: string): string | undefined;
}

/** What only the daemon that is made of all the parts knows. */
export interface OverlayFacts {
  readonly version: string;
  httpPort(): number;
  ledger(): { readonly ok: boolean; readonly size: number };
  /** The scopes that are allowed. */
  consent(): readonly DataClass[];
  /** Ids of those that have a credential. */
  providers(): readonly string[];
  /** The local model that answers by default; undefined: there is none. */
  localModel(signal: AbortSignal): Promise<string | undefined>;
}

export interface OverlayLimits {
  readonly running: number;
  readonly waiting: number;
  /** Further places for connections that have no query under way, so that nobody can fill the door up. */
  readonly reservedForNew: number;
  /** How long a person is waited for, in milliseconds. */
  readonly answerTimeoutMs: number;
}

export const defaultOverlayLimits: OverlayLimits = {
  running: 4,
  waiting: 16,
  reservedForNew: 4,
  // As long as a parked call of Agent1 waits.
  answerTimeoutMs: 300_000,
};
