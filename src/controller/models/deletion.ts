import { FILE_POLICY, MODEL_FINALIZER, type Resource } from "../../resources/resource.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { ModelContext } from "./context.ts";

/** How long until an assistant that runs and does not answer is asked again, in milliseconds. */
const SILENCE_MS = 2_000;

/**
 * The finalizer: out of memory, then its files where the person asked for it; otherwise they stay until the
 * budget wants their room. Every step can be repeated; the resource goes away after the last one.
 */
export async function deleteModel(
  context: ModelContext,
  resource: Resource<"Model">,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { store, jobs, watch, files, assistant, daemon } = context;
  const { name, uid, annotations } = resource.metadata;
  if (resource.status && resource.status.phase !== "deleting")
    store.setStatus("Model", name, uid, { ...resource.status, phase: "deleting" });
  const sight = await watch.look(signal);
  // An assistant that has ended has forgotten the model; one that only does not answer has not.
  const { state } = daemon.report();
  if (!sight.reachable && (state === "up" || state === "foreign"))
    return { settled: true, requeueAfterMs: SILENCE_MS };
  const isThere =
    sight.reachable && sight.state.models.some(({ id, pinned }) => id === name && pinned);
  if (isThere) {
    const unloading = jobs.ensure(name, {
      step: "unload",
      key: name,
      run: async (_, ending) => {
        await assistant.unload(name, ending);
        return { step: "unload" };
      },
    });
    if (unloading.type === "waiting" || unloading.type === "running")
      return { settled: true, requeueAfterMs: null };
    jobs.collect(name);
    if (unloading.type === "failed") throw unloading.error;
  } else {
    jobs.cancel(name);
    // It ends within moments, and tells when it has.
    if (jobs.current(name)) return { settled: true, requeueAfterMs: null };
  }
  const pin = resource.status?.memory.pin;
  if (annotations[FILE_POLICY] === "delete" && pin)
    await files.remove(pin.model.key, keysInUse(context, name));
  store.events.record({
    kind: "Model",
    name,
    type: "Normal",
    reason: "Deleted",
    message:
      annotations[FILE_POLICY] === "delete"
        ? "out of memory, and its files are gone"
        : "out of memory; its files stay until their room is needed",
  });
  store.removeFinalizer("Model", name, MODEL_FINALIZER);
  context.onFilesUnused();
  return { settled: true, requeueAfterMs: null };
}

/** What the Models of the store, beside one of them, have on the disk or are fetching. */
export function keysInUse(
  { store }: Pick<ModelContext, "store">,
  without?: string,
): readonly string[] {
  return store
    .list("Model")
    .filter(({ metadata }) => metadata.name !== without)
    .flatMap(({ status }) => (status?.memory.pin ? [status.memory.pin.model.key] : []));
}
