import type {
  AppStatus,
  ConditionStatus,
  ConditionType,
  ReconcileState,
} from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { BuildRecord } from "../../store/store.ts";
import type { Ingress } from "../ingress/port.ts";
import type { Reason } from "../reason.ts";
import type { ReadinessObservation } from "./app-readiness.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { Plan } from "./plan/plan-types.ts";

/** Everything that the status is computed from. */
export interface AppFindings extends ReadinessObservation {
  readonly resource: Resource<"App">;
  readonly nowMs: number;
  readonly memory: ReconcileState;
  readonly baseDomain: string;
  readonly ingress: Ingress;
  /** The desired version; null if the spec could not be resolved, for the reason in `refused` or `blocked`. */
  readonly desired: DesiredApp | null;
  readonly plan: Plan | null;
  /** The reason why the spec cannot be deployed at all, such as a missing Secret or a cycle of dependencies. */
  readonly refused: Reason | null;
  /** The reason why no containers are created yet. */
  readonly blocked: Reason | null;
  /** The reason why an earlier revision runs while the spec's source is being resolved. */
  readonly held: Reason | null;
  /** The failure of the source that lasts until the spec or a Secret changes, or the user retries. */
  readonly sourceFailure: Reason | null;
  /** The reason why the source could not be resolved again, although an earlier resolution is known. */
  readonly fetchFailure: Reason | null;
  /** The outage that delays a step beyond the progress deadline, a full disk, or a refused mount; Berth keeps trying. */
  readonly outage: Reason | null;
  /** The image of the spec's own source, and the newest build of it. */
  readonly ownImage: string | null;
  readonly build: BuildRecord | null;
  /** The step that runs now. */
  readonly progress: Reason | null;
  /** The reason why the engine could not be asked; null if it answered. */
  readonly unknown: string | null;
  readonly revisions: AppStatus["revisions"];
  readonly nextRetryAtMs: number | null;
}

export type SetCondition = (
  type: ConditionType,
  status: ConditionStatus | null,
  reason: string,
  message: string,
) => void;
