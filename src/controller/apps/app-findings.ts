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
import type { ForeignContainer } from "./plan/observed-containers.ts";
import type { Plan } from "./plan/plan-types.ts";

/** All facts that the status is computed from. */
export interface AppFindings extends ReadinessObservation {
  readonly resource: Resource<"App">;
  readonly nowMs: number;
  readonly memory: ReconcileState;
  readonly baseDomain: string;
  readonly ingress: Ingress;
  /** The desired version; null if the spec could not be resolved. `refused` or `blocked` then contains the reason. */
  readonly desired: DesiredApp | null;
  /** The containers of earlier versions that another program has created or changed. */
  readonly foreignOld: readonly ForeignContainer[];
  readonly plan: Plan | null;
  /**
   * The reason why the spec cannot be deployed at all, such as a missing Secret or a cycle of dependencies; null if
   * there is none.
   */
  readonly refused: Reason | null;
  /** The reason why no containers are created yet. */
  readonly blocked: Reason | null;
  /** The reason why an earlier revision runs while the spec's source is being resolved. */
  readonly held: Reason | null;
  /**
   * A failure of the source that no retry by Berth can fix. It lasts until the spec or a Secret changes, or the user
   * retries.
   */
  readonly sourceFailure: Reason | null;
  /** The reason why the source could not be resolved again; the result of an earlier resolution is used meanwhile. */
  readonly fetchFailure: Reason | null;
  /**
   * The reason why the App has made no progress for longer than its progress deadline: an outage, a full disk or a
   * refused mount. Berth keeps trying.
   */
  readonly outage: Reason | null;
  /** The image of the stored spec, even if an earlier revision runs; null while the spec's source is unresolved. */
  readonly ownImage: string | null;
  /** The newest build of the image `ownImage`. */
  readonly build: BuildRecord | null;
  /** The pull or the build that is in progress. */
  readonly progress: Reason | null;
  /** The engine's error, because of which the state of the containers is unknown; null if the engine answered. */
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
