import { NotFoundError } from "../../base/errors.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import { emptyModelReconcileState } from "../../resources/model-status.ts";
import { isKind } from "../../resources/resource.ts";
import { diffSpecs } from "../diff-specs.ts";
import { buildDryRunResource } from "../dry-run-resource.ts";
import type { ModelPlanReport, PlannedResource } from "../port.ts";
import { computeStallInputs, desiredModel, findCredentialProblem } from "./desired-model.ts";
import type { ModelContext } from "./model-context.ts";
import { applyModelInputs } from "./model-reconcile-state.ts";
import { observeModel } from "./observe-model.ts";
import { planModel } from "./plan-model.ts";

/** Returns the plan of a reconcile of this Model, computed with the reconciler's own functions. */
export async function reportModelPlan(
  context: ModelContext,
  name: string,
  spec: ModelSpec | undefined,
  signal: AbortSignal,
  alongside: readonly PlannedResource[] = [],
): Promise<ModelPlanReport> {
  const { store, watch, files } = context;
  const stored = store.get("Model", name);
  const asked = spec ?? stored?.spec;
  if (!asked) throw new NotFoundError(`there is no model "${name}"`, "berth models ls lists them");
  const planned = alongside.map((one) => one.resource).filter((one) => isKind(one, "Model"));
  const written = planned.find(({ metadata }) => metadata.name === name);
  const resource = buildDryRunResource("Model", name, stored, asked, written?.metadata.annotations);
  const desired = desiredModel(resource);
  const known = { ...emptyModelReconcileState, ...stored?.status?.memory };
  const memory = applyModelInputs(known, desired, computeStallInputs(store, resource));
  const all = [
    ...store
      .list("Model")
      .filter((one) => !planned.some(({ metadata }) => metadata.name === one.metadata.name)),
    ...planned,
  ];
  const observed = await observeModel({
    desired,
    memory,
    facts: stored?.status?.facts ?? null,
    files,
    observation: await watch.observe(signal),
    all,
  });
  const plan = planModel(desired, observed);
  const credential = asked.credential;
  const isComing = planned.length < alongside.length && hasSecret(alongside, credential);
  const refused = isComing ? undefined : findCredentialProblem(store, asked);
  return {
    model: name,
    generation: resource.metadata.generation,
    operations: plan.operations.map(({ type, target, cause }) => ({
      operation: type,
      target,
      cause,
    })),
    changes: diffSpecs(stored?.spec ?? {}, asked),
    blockedBy: (refused ?? memory.stalled ?? plan.blockedBy)?.message ?? null,
  };
}

function hasSecret(alongside: readonly PlannedResource[], name: string | undefined): boolean {
  return alongside.some(
    ({ resource }) => resource.kind === "Secret" && resource.metadata.name === name,
  );
}
