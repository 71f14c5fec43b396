import { emptyReconcileState, type ReconcileState } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import type { Reason } from "../reason.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { EngineRecovery } from "./engine-recovery.ts";
import type { AppObservation } from "./observe-app.ts";
import type { ForeignContainer } from "./plan/observed-containers.ts";
import type { ObservedApp, Plan } from "./plan/plan-types.ts";
import type { ResolveAppInput, ResolvedApp } from "./resolve-app.ts";

/**
 * The state of one reconcile run of an App. Each step of the run returns a new state, whose type shows the last step:
 *
 * RunState -> resolve -> ResolvedRun -> observe -> ObservedRun -> plan -> PlannedRun -> act -> RunState
 *
 * A run may repeat the steps. Earlier values stay until a step replaces them, so that a run that fails reports what
 * it found last.
 */
export interface RunState extends AppObservation {
  readonly resource: Resource<"App">;
  readonly memory: ReconcileState;
  /** The state of the source; null if the spec names an image. */
  readonly source: SourceState | null;
  readonly resolved: ResolvedApp | null;
  /** The containers of earlier versions that another program has created or changed. */
  readonly foreignOld: readonly ForeignContainer[];
  readonly image: ObservedApp["image"];
  readonly plan: Plan | null;
  /** True if this version, or the same revision with other containers, was stable earlier. */
  readonly isProven: boolean;
  /**
   * The reason why a build or the reconcile run itself has to wait, because there is not enough disk space; null if
   * there is enough.
   */
  readonly outage: Reason | null;
  /** The time, in epoch milliseconds, when a waiting build is tried again even if no space has become free. */
  readonly nextRetryAtMs: number | null;
  /** The pull or the build that is in progress. */
  readonly progress: Reason | null;
  readonly mask: SecretMask;
}

export interface ResolvedRun extends RunState {
  readonly resolved: ResolvedApp;
  /** The digest of the App's inputs (see `runInputs`) from which `resolved` was computed. */
  readonly inputs: string;
  readonly resolveInput: ResolveAppInput;
}

/**
 * The state of an App's reconcile run after the observation: the desired version of the App is known, and the App's
 * containers have been observed.
 */
export interface ObservedRun extends ResolvedRun {
  readonly desired: DesiredApp;
  readonly recovery: EngineRecovery;
}

export interface PlannedRun extends ObservedRun {
  readonly plan: Plan;
}

export function createRunState(resource: Resource<"App">): RunState {
  return {
    resource,
    memory: { ...emptyReconcileState, ...resource.status?.memory },
    source: null,
    resolved: null,
    containers: [],
    health: new Map(),
    route: null,
    stopping: new Set(),
    foreignOld: [],
    image: "unknown",
    plan: null,
    isProven: false,
    outage: null,
    nextRetryAtMs: null,
    progress: null,
    mask: (text) => text,
  };
}
