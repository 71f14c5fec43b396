import { canonicalJson } from "../../base/canonical-json.ts";
import { NotFoundError } from "../../base/errors.ts";
import { resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import type { Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import { diffSpecs } from "../diff-specs.ts";
import { buildDryRunResource } from "../dry-run-resource.ts";
import type { PlannedResource, PlanReport } from "../port.ts";
import { overlayPlannedResources } from "./dry-run-store.ts";
import { assessEngineRecovery } from "./engine-recovery.ts";
import { forecastRollout } from "./forecast-rollout.ts";
import { resolveImagePin } from "./image-pin.ts";
import { observeConnections, previewObservation } from "./observe-app.ts";
import { previewImage } from "./observe-image.ts";
import { isImageOperation } from "./obtain-image.ts";
import type { Operation } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { chooseStrategy } from "./rollout-strategy.ts";
import { createRunState, type ObservedRun, type PlannedRun, type RunState } from "./run-state.ts";
import {
  applyChanges,
  isProvenVersion,
  needsPlan,
  planRun,
  resolveRun,
  trackAttempt,
} from "./run-steps.ts";

/**
 * A placeholder for the loopback port that a reconcile run would lease. The report of a dry run does not show ports, so
 * the value has no effect.
 */
const UNLEASED_PORT = 0;

export interface DryRunOptions {
  readonly name: string;
  /** The spec for which the operations are planned; without it, the stored spec. */
  readonly spec: AppSpec | undefined;
  /** Annotations that are added to the stored ones. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Resources that the same dry run would write. The plan is made as if they existed. */
  readonly plannedResources: readonly PlannedResource[];
}

/**
 * Returns what a run of the reconciler would do to an App now, from the same steps and the same observation as the run,
 * without executing or recording anything. Throws NotFoundError, or the error of the engine.
 */
export async function reportAppPlan(
  context: ReconcilerContext,
  { name, spec, annotations, plannedResources }: DryRunOptions,
  signal: AbortSignal,
): Promise<PlanReport> {
  const { store, ingress, clock } = context;
  const stored = store.get("App", name);
  if (!stored && spec === undefined)
    throw new NotFoundError(`there is no app "${name}"`, "berth get apps lists them");
  const requestedSpec = spec ?? stored?.spec ?? {};
  const resource = buildDryRunResource("App", name, stored, requestedSpec, annotations);
  const source = assumeSource(context, stored, resource);
  const started = applyChanges(store, { ...createRunState(resource), source }, clock.now());
  const state = await resolveDryRun(context, started, plannedResources, signal);
  const { desired, refused, blocked, held } = state.resolved;
  const common = {
    app: name,
    generation: resource.metadata.generation,
    changes: diffSpecs(stored?.spec ?? {}, requestedSpec),
  };
  if (!desired) {
    const strategy = chooseStrategy(resolveAppDefaults(requestedSpec), ingress.mode !== "off");
    return {
      ...common,
      strategy: strategy.type,
      strategyReason: strategy.message,
      operations: [],
      blockedBy: (refused ?? blocked)?.message ?? null,
    };
  }
  const observation = await previewObservation(context, name, state.mask, signal);
  const recovery = assessEngineRecovery(context, desired, observation.containers);
  const observed: ObservedRun = { ...state, ...observation, desired, recovery };
  const planned = await planDryRun(context, observed, signal);
  return {
    ...common,
    strategy: desired.strategy.type,
    strategyReason: desired.strategy.message,
    operations: [
      ...planned.operations.map(describeOperation),
      ...forecastRollout(desired, observation.containers, planned.operations),
    ],
    blockedBy: explainHalt(planned.memory, planned.driftLoop) ?? (held ?? blocked)?.message ?? null,
  };
}

async function resolveDryRun(
  context: ReconcilerContext,
  state: RunState,
  plannedResources: readonly PlannedResource[],
  signal: AbortSignal,
) {
  const { store, ingress, containerListener, networkPool, dataDir, images, puller } = context;
  const route = await ingress.table.read(state.resource.metadata.name);
  const overlay = overlayPlannedResources(store, plannedResources);
  const getLoopbackPort = (app: string, replica: number, port: number) =>
    store.ports.get(app, replica, port) ?? UNLEASED_PORT;
  const getAddressPair = (app: string, replica: number) => store.addresses.get(app, replica);
  // A dry run uses what the store and the engine know about the image, because it sends no request to a registry.
  const image = await resolveImagePin({ store: overlay, images, puller }, state, signal);
  return resolveRun(
    {
      store: overlay,
      ingress,
      containerListener,
      networkPool,
      dataDir,
      getLoopbackPort,
      getAddressPair,
    },
    { ...state, route },
    image,
  );
}

/** Plans the operations for a dry run, including those that become possible after a pull or a build. */
async function planDryRun(context: ReconcilerContext, observed: ObservedRun, signal: AbortSignal) {
  const { store, clock, firstSeenTimes } = context;
  const { desired } = observed;
  const { state: tracked, isFresh } = trackAttempt(observed, clock.now());
  const state = { ...tracked, isProven: isProvenVersion(store, tracked) };
  if (!needsPlan(state, desired)) return { memory: state.memory, operations: [], driftLoop: null };
  const facts = {
    nowMs: clock.now(),
    isFresh,
    firstSeen: firstSeenTimes.preview(desired, state, clock.now()),
    connections: await observeConnections(context, state, signal),
  };
  const image = await previewImage(context, { ...state, ...state.resolved, desired }, signal);
  const { plan, memory } = planRun({ ...state, image }, facts);
  const first = plan.operations.filter(isImageOperation);
  const rest: PlannedRun | undefined =
    image === "absent" && first.length > 0
      ? planRun({ ...state, image: "present" }, facts)
      : undefined;
  return {
    memory,
    operations: rest ? [...first, ...rest.plan.operations] : plan.operations,
    driftLoop: plan.driftLoop,
  };
}

/**
 * Assumes that the image of an unresolved source has to be built, because a dry run sends no request to a git server.
 */
function assumeSource(
  { store, builds }: ReconcilerContext,
  stored: Resource<"App"> | undefined,
  requested: Resource<"App">,
): SourceState | null {
  if (requested.spec.source === undefined) return null;
  if (stored !== undefined && sourceKey(stored) === sourceKey(requested))
    return builds.source(stored);
  const image = `berth-${store.instanceId}/${requested.metadata.name}:new`;
  return { type: "resolved", revision: "", image };
}

function sourceKey({ spec, metadata }: Resource<"App">): string {
  return canonicalJson([spec.source, spec.build, metadata.annotations]);
}

function explainHalt({ stalled }: RunState["memory"], driftLoop: string | null) {
  if (stalled) return stalled.message;
  return driftLoop === null
    ? undefined
    : `Berth has stopped correcting "${driftLoop}", because it was changed by hand repeatedly`;
}

function describeOperation(operation: Operation): PlanReport["operations"][number] {
  const target =
    "spec" in operation
      ? operation.spec.name
      : "name" in operation
        ? operation.name
        : "image" in operation
          ? operation.image
          : "network" in operation
            ? operation.network
            : "folder" in operation
              ? operation.folder
              : operation.volume;
  return { operation: operation.type, target, cause: operation.cause };
}
