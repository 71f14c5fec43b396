import {
  FILE_POLICY_ANNOTATION,
  MODEL_FINALIZER,
  type Resource,
} from "../../resources/resource.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { AssistantObservation } from "./assistant-watch.ts";
import type { ModelContext } from "./model-context.ts";

/** How long until an assistant that runs and does not answer is asked again, in milliseconds. */
const RETRY_UNREACHABLE_MS = 2_000;

/**
 * The finalizer: out of memory, then its files where the person asked for it; otherwise they stay until the
 * budget wants their room. Every step can be repeated; the resource goes away after the last one.
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
  // An assistant that has ended has forgotten the model; one that only does not answer has not.
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
      ? `out of memory, and its files ${isLast ? "are gone" : "stay: another Model has them"}`
      : "out of memory; its files stay until their room is needed",
  });
  store.removeFinalizer("Model", name, MODEL_FINALIZER);
  context.onFilesUnused();
  return { isSettled: true, requeueAfterMs: null };
}

/**
 * What is left of a Model that is gone, such as one that the backup does not know that was just restored. Our
 * own assistant keeps nothing in memory but what it was told to; another one has an owner who sees to it.
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

/** Kept in the memory of our own assistant, and no Model any more. */
export function findOrphans({ store, watch, daemon }: ModelContext): readonly string[] {
  const { last } = watch;
  if (!last.reachable || daemon.report().state !== "up") return [];
  return last.state.models.flatMap(({ id, pinned }) =>
    pinned && store.get("Model", id) === undefined ? [id] : [],
  );
}

/** Sees to it that nothing is done for it any more, and that it is out of memory: true once that is so. */
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
    // It ends within moments, and tells when it has.
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

/** What the Models of the store, beside one of them, have on the disk or are fetching. */
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
