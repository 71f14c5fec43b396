import type { ModelFileFacts, ModelReconcileState } from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";
import type { AssistantModel } from "./assistant/port.ts";
import type { DesiredModel } from "./desired-model.ts";
import type { StoredModel } from "./files/port.ts";
import type { JobState, JobStep } from "./model-jobs.ts";
import type { ModelPlan } from "./plan-model.ts";

/** The results of one run, from which the status is derived. */
export interface ModelStatusInput {
  readonly resource: Resource<"Model">;
  readonly desired: DesiredModel;
  readonly nowMs: number;
  readonly memory: ModelReconcileState;
  /** Undefined if it is incomplete or does not match the spec. */
  readonly stored: StoredModel | undefined;
  readonly storedBytes: number;
  readonly facts: ModelFileFacts | null;
  readonly assistant:
    | { readonly reachable: false; readonly message: string }
    | {
        readonly reachable: true;
        readonly url: string;
        readonly model: AssistantModel | undefined;
      };
  readonly plan: ModelPlan | null;
  readonly job: { readonly step: JobStep; readonly state: JobState } | undefined;
  /** The reason why the spec cannot be applied. */
  readonly refused: Reason | null;
}
