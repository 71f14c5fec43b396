import {
  FILE_POLICY_ANNOTATION,
  MODEL_FINALIZER,
  type Resource,
} from "../../resources/resource.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { AssistantObservation } from "./assistant-watch.ts";
import type { ModelContext } from "./model-context.ts";

/** The delay before the next request to an assistant that runs but does not answer, in milliseconds. */
const RETRY_UNREACHABLE_MS = 2_000;

/**
 * Runs the finalizer. It unloads the model, and removes its files if the user requested it; otherwise the files stay
 * until the disk budget needs the space. Every step can be repeated. The resource is removed after the last step.
 */
export async function deleteModel(
  context: ModelContext,
  resource: Resource<"Model">,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { store, watch, files, daemon } = context;
  const { name, uid, annotations } = resource.metadata;
  if (resource.status && resource.status.phase !== "deleting")
    store.setStatus("Model", name, uid, { ...resource.status, phase: "deleting" });
  const observation = await watch.observe(signal);
  // An assistant that has ended has no models in memory. An assistant that runs but does not answer may have some, so
  // the deletion waits for its answer.
  const { state } = daemon.report();
  if (!observation.reachable && (state === "up" || state === "foreign"))
    return { isSettled: true, requeueAfterMs: RETRY_UNREACHABLE_MS };
  if (!ensureUnloaded(context, name, observation)) return { isSettled: true, requeueAfterMs: null };
  const pin = resource.status?.memory.pin;
  const inUse = findKeysInUse(context, name);
  const isLast = pin ? !inUse.includes(pin.model.key) : true;
  const isToGo = annotations[FILE_POLICY_ANNOTATION] === "delete";
  if (isToGo && pin) await files.remove(pin.model.key, inUse);
  store.events.record({
    kind: "Model",
    name,
    type: "Normal",
    reason: "Deleted",
    message: isToGo
      ? `the model is unloaded; its files ${isLast ? "are removed" : "stay: another Model uses them"}`
      : "the model is unloaded; its files stay until the space is needed",
  });
  store.removeFinalizer("Model", name, MODEL_FINALIZER);
  context.onFilesUnused();
  return { isSettled: true, requeueAfterMs: null };
}

/**
 * Unloads a model that has no resource any more, for example after an older backup was restored. Only Berth's own
 * assistant is changed, because all its pinned models were loaded by Berth. A foreign assistant is managed by its
 * owner.
 */
export async function cleanUpOrphan(
  context: ModelContext,
  name: string,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const observation = await context.watch.observe(signal);
  ensureUnloaded(context, name, context.daemon.report().state === "up" ? observation : undefined);
  return { isSettled: true, requeueAfterMs: null };
}

/** Returns the ids of models that Berth's own assistant keeps pinned, although the store has no such Model. */
export function findOrphans({ store, watch, daemon }: ModelContext): readonly string[] {
  const { last } = watch;
  if (!last.reachable || daemon.report().state !== "up") return [];
  return last.state.models.flatMap(({ id, pinned }) =>
    pinned && store.get("Model", id) === undefined ? [id] : [],
  );
}

/** Cancels the model's job and unloads the model. Returns true when both are done. */
function ensureUnloaded(
  { jobs, assistant }: ModelContext,
  name: string,
  observation: AssistantObservation | undefined,
): boolean {
  const isThere =
    observation?.reachable === true &&
    observation.state.models.some(({ id, pinned }) => id === name && pinned);
  if (!isThere) {
    jobs.cancel(name);
    // When the cancelled job has ended, `ModelJobs` queues the Model again, and the deletion continues.
    return jobs.current(name) === undefined;
  }
  const unloading = jobs.ensure(name, {
    step: "unload",
    key: name,
    run: async (_, ending) => {
      await assistant.unload(name, ending);
      return { step: "unload" };
    },
  });
  if (unloading.type === "waiting" || unloading.type === "running") return false;
  jobs.clearResult(name);
  if (unloading.type === "failed") throw unloading.error;
  return true;
}

/** Returns the keys of the files that other Models of the store use or are downloading. */
export function findKeysInUse(
  { store }: Pick<ModelContext, "store">,
  exceptName?: string,
): readonly string[] {
  return store
    .list("Model")
    .filter(({ metadata }) => metadata.name !== exceptName)
    .flatMap(({ status }) => [status?.memory.pin?.model.key, status?.memory.replaced?.key])
    .filter((key) => typeof key === "string");
}
