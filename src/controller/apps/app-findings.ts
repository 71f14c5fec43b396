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

/** Everything that one run of the reconciler found out, from which the status follows. */
export interface AppFindings extends ReadinessObservation {
  readonly resource: Resource<"App">;
  readonly nowMs: number;
  readonly memory: ReconcileState;
  readonly baseDomain: string;
  readonly ingress: Ingress;
  /** Null where the spec could not be worked out, for the reason in `refused` or `blocked`. */
  readonly desired: DesiredApp | null;
  readonly plan: Plan | null;
  /** What keeps the spec from being taken up at all: a missing secret, a cycle of dependencies. */
  readonly refused: Reason | null;
  /** What is waited for before containers are made. */
  readonly blocked: Reason | null;
  /** Why an earlier revision is held while the spec's source is looked for. */
  readonly held: Reason | null;
  /** Nothing can be done about the source until a person, a spec or a Secret changes something. */
  readonly sourceFailure: Reason | null;
  /** The image that the spec's own source comes to, and the newest build of it. */
  readonly ownImage: string | null;
  readonly build: BuildRecord | null;
  /** The step under way. */
  readonly progress: Reason | null;
  /** Set when the engine could not be asked: nothing is known then. */
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
