import type { ModelFileFacts, ModelReconcileState } from "../../resources/model-status.ts";
import type { Reason } from "../reason.ts";
import type { AssistantModel } from "./assistant/port.ts";
import type { DesiredModel } from "./desired-model.ts";
import type { StoredModel } from "./files/port.ts";
import type { MemoryDecision } from "./memory-decision.ts";
import type { JobStep } from "./model-jobs.ts";

/** A step of a Model's plan, with its cause. */
export interface ModelOperation {
  readonly type:
    | "resolveSource"
    | "downloadFiles"
    | "verifyFiles"
    | "inspectFile"
    | "unloadModel"
    | "loadModel";
  readonly target: string;
  readonly cause: string;
}

/** Maps each operation of a plan to the step of the job that executes the operation. */
export const stepsByOperation: Readonly<Record<ModelOperation["type"], JobStep>> = {
  resolveSource: "resolve",
  downloadFiles: "download",
  verifyFiles: "verify",
  inspectFile: "inspect",
  unloadModel: "unload",
  loadModel: "load",
};

export interface ModelPlan {
  /** The steps in the order of execution; empty if there is nothing to do. */
  readonly operations: readonly ModelOperation[];
  /** The reason why the load that the spec requests has to wait; null if no load has to wait. */
  readonly blockedBy: Reason | null;
}

/** The observed state of a Model, from which `planModel` computes the steps. */
export interface ObservedModel {
  readonly pin: ModelReconcileState["pin"];
  /** True if the source has to be resolved again: a user requested that, or its file may have changed. */
  readonly isPinStale: boolean;
  /** The stored model; undefined if its files are not complete on the disk. */
  readonly stored: StoredModel | undefined;
  /** The model that was used before, if the new model is not complete yet; undefined otherwise. */
  readonly replaced: StoredModel | undefined;
  /** Downloaded bytes of incomplete files. */
  readonly storedBytes: number;
  readonly isVerifyDue: boolean;
  readonly facts: ModelFileFacts | null;
  readonly assistant:
    | { readonly reachable: false; readonly message: string }
    | {
        readonly reachable: true;
        /** This Model's state at the assistant; undefined if the assistant has no model with this Model's name. */
        readonly model: AssistantModel | undefined;
        /** The ids and aliases of the assistant's other models, which this Model cannot have as aliases. */
        readonly namesOfOthers: readonly string[];
        readonly verdict: MemoryDecision;
      };
}

/** Computes the steps from the observed to the desired state. Pure. The reconciler and dry runs use it. */
export function planModel(desired: DesiredModel, observed: ObservedModel): ModelPlan {
  const { name } = desired;
  const operations: ModelOperation[] = [];
  const add = (type: ModelOperation["type"], target: string, cause: string) =>
    operations.push({ type, target, cause });
  const { pin, stored } = observed;
  const isPinned = pin !== null && pin.inputs === desired.inputs;
  if (!isPinned) add("resolveSource", desired.request.source, "the source is not resolved");
  else if (observed.isPinStale)
    add(
      "resolveSource",
      desired.request.source,
      observed.isVerifyDue ? "a user requested it" : "the source may have changed",
    );

  const whole = isPinned ? stored : undefined;
  const files = isPinned ? describeFiles(pin.model) : desired.request.source;
  if (!whole) {
    const isPart = isPinned && observed.storedBytes > 0;
    add(
      "downloadFiles",
      files,
      isPart ? "the files are incomplete" : "the files are not on the disk",
    );
  } else if (observed.isVerifyDue) add("verifyFiles", files, "a user requested it");
  const unload = getUnloadCause(desired, observed, whole);
  const loaded = observed.assistant.reachable ? observed.assistant.model : undefined;
  if (needsStandIn(desired, observed))
    operations.unshift({
      type: "loadModel",
      target: name,
      cause: "the previous file is loaded until the new one is complete",
    });
  if (unload !== null) add("unloadModel", name, unload);
  if (!desired.running) return { operations, blockedBy: null };
  if (!observed.assistant.reachable)
    return {
      operations,
      blockedBy: { reason: "AssistantUnreachable", message: observed.assistant.message },
    };
  if (!whole || observed.facts === null)
    add("inspectFile", name, "the memory use of the file is not known");
  const { verdict } = observed.assistant;
  if (whole && verdict.type === "refused")
    return { operations, blockedBy: { reason: "InsufficientMemory", message: verdict.message } };
  if (whole && verdict.type === "waits")
    return {
      operations,
      blockedBy: {
        reason: "WaitingForMemory",
        message: `waits until these models are unloaded: ${verdict.for.join(", ")}`,
      },
    };
  const missing = whole ? getLoadCause(desired, whole, loaded) : "it is not in memory";
  if (missing !== null) add("loadModel", name, missing);
  return { operations, blockedBy: null };
}

/**
 * Returns the file to load: the desired file or, until that file is complete, the previous one. With the previous
 * file, clients have a model even if the assistant restarts meanwhile. Undefined if there is neither file.
 */
export function chooseFileToLoad(
  desired: DesiredModel,
  { pin, stored, replaced }: ObservedModel,
): StoredModel | undefined {
  const isPinned = pin !== null && pin.inputs === desired.inputs;
  return isPinned ? (stored ?? replaced) : stored;
}

function needsStandIn(desired: DesiredModel, observed: ObservedModel): boolean {
  const { pin, stored, assistant } = observed;
  const isWhole = pin !== null && pin.inputs === desired.inputs && stored !== undefined;
  if (!desired.running || isWhole || !assistant.reachable || !chooseFileToLoad(desired, observed))
    return false;
  return assistant.verdict.type === "fits" && !assistant.model?.pinned;
}

function describeFiles(model: NonNullable<ModelReconcileState["pin"]>["model"]): string {
  const [first, ...more] = model.files;
  return more.length === 0 ? (first?.name ?? "") : `${first?.name} and ${more.length} more`;
}

/** Returns the reason to unload the model; null if it may stay or is not loaded. */
function getUnloadCause(
  desired: DesiredModel,
  { assistant }: ObservedModel,
  whole: StoredModel | undefined,
): string | null {
  if (!assistant.reachable || !assistant.model || !isLoadedByBerth(assistant.model)) return null;
  if (!desired.running) return "the spec sets running: false";
  // A failed model is unloaded too: otherwise a client that requests it by name would cause another load.
  if (whole && assistant.verdict.type === "refused" && assistant.model.state !== "unloading")
    return "another model has priority for the memory";
  return null;
}

/**
 * Returns true for a model that Berth loaded through the control socket; the assistant pins only such models. All other
 * models are files in the assistant's own folder.
 */
function isLoadedByBerth({ pinned }: AssistantModel): boolean {
  return pinned;
}

/**
 * Returns the reason to load the model; null if it is loaded as desired, or if the assistant is reloading it already.
 */
function getLoadCause(
  desired: DesiredModel,
  stored: StoredModel,
  model: AssistantModel | undefined,
): string | null {
  if (!model?.pinned) return "it is not in memory";
  if (model.path !== stored.path) return "another file is in memory";
  if (model.wanted.contextTokens !== (desired.contextTokens ?? null))
    return "contextSize has changed";
  if (model.wanted.sequences !== (desired.sequences ?? null)) return "parallel has changed";
  if ((model.wanted.chatTemplate ?? null) !== (desired.chatTemplate ?? null))
    return "chatTemplate has changed";
  if (model.wanted.deterministic !== (desired.deterministic ?? null))
    return "deterministic has changed";
  if (model.state === "unloaded") return "it is not in memory";
  return model.state === "failed" && !model.recovering ? "the last load failed" : null;
}

/** True if the model is usable and has the desired file and settings. */
export function isLoadedAsWanted(
  desired: DesiredModel,
  stored: StoredModel | undefined,
  model: AssistantModel | undefined,
): boolean {
  return (
    stored !== undefined &&
    model?.state === "resident" &&
    getLoadCause(desired, stored, model) === null
  );
}
