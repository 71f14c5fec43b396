import type { ModelFileFacts, ModelReconcileState } from "../../resources/model-status.ts";
import type { Reason } from "../reason.ts";
import type { AssistantModel } from "./assistant/port.ts";
import type { DesiredModel } from "./desired-model.ts";
import type { StoredModel } from "./files/port.ts";
import type { MemoryDecision } from "./memory-decision.ts";

/** One step, each one call of a port, with its cause. */
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

export interface ModelPlan {
  /** In the order in which they would run. Empty: nothing to do. */
  readonly operations: readonly ModelOperation[];
  /** What holds back the load that the spec wants; null where nothing does. */
  readonly blockedBy: Reason | null;
}

/** All that a plan depends on. */
export interface ObservedModel {
  readonly pin: ModelReconcileState["pin"];
  /** The source is to be asked although it is known, as a person wished. */
  readonly isPinStale: boolean;
  /** Undefined where its files are not whole on the disk. */
  readonly stored: StoredModel | undefined;
  /** What served before, while what is wanted now is still on its way; undefined where there is none. */
  readonly replaced: StoredModel | undefined;
  /** Bytes that are there already of what is not whole. */
  readonly storedBytes: number;
  readonly isVerifyDue: boolean;
  readonly facts: ModelFileFacts | null;
  readonly assistant:
    | { readonly reachable: false; readonly message: string }
    | {
        readonly reachable: true;
        /** This model, as the assistant has it; undefined where it knows none of that name. */
        readonly model: AssistantModel | undefined;
        /** Under which the assistant knows others. */
        readonly namesOfOthers: readonly string[];
        readonly verdict: MemoryDecision;
      };
}

/** The steps from what there is to what should be. Pure; the same for the reconciler and for a dry run. */
export function planModel(desired: DesiredModel, observed: ObservedModel): ModelPlan {
  const { name } = desired;
  const operations: ModelOperation[] = [];
  const add = (type: ModelOperation["type"], target: string, cause: string) =>
    operations.push({ type, target, cause });
  const { pin, stored } = observed;
  const isPinned = pin !== null && pin.inputs === desired.inputs;
  if (!isPinned)
    add("resolveSource", desired.request.source, "it is not known what the source stands for");
  else if (observed.isPinStale)
    add(
      "resolveSource",
      desired.request.source,
      observed.isVerifyDue ? "a person asked for it" : "it may be another one by now",
    );

  const whole = isPinned ? stored : undefined;
  const files = isPinned ? describeFiles(pin.model) : desired.request.source;
  if (!whole) {
    const isPart = isPinned && observed.storedBytes > 0;
    add("downloadFiles", files, isPart ? "they are there in part" : "they are not on the disk");
  } else if (observed.isVerifyDue) add("verifyFiles", files, "a person asked for it");
  const unload = getUnloadCause(desired, observed, whole);
  const loaded = observed.assistant.reachable ? observed.assistant.model : undefined;
  if (needsStandIn(desired, observed))
    operations.unshift({
      type: "loadModel",
      target: name,
      cause: "what served before serves until the new one is there",
    });
  if (unload !== null) add("unloadModel", name, unload);
  if (!desired.running) return { operations, blockedBy: null };
  if (!observed.assistant.reachable)
    return {
      operations,
      blockedBy: { reason: "AssistantUnreachable", message: observed.assistant.message },
    };
  if (!whole || observed.facts === null)
    add("inspectFile", name, "what it takes in memory is not known");
  const { verdict } = observed.assistant;
  if (whole && verdict.type === "refused")
    return { operations, blockedBy: { reason: "InsufficientMemory", message: verdict.message } };
  if (whole && verdict.type === "waits")
    return {
      operations,
      blockedBy: {
        reason: "WaitingForMemory",
        message: `waits until ${verdict.for.join(", ")} has left the memory`,
      },
    };
  const missing = whole ? getLoadCause(desired, whole, loaded) : "it is not in memory";
  if (missing !== null) add("loadModel", name, missing);
  return { operations, blockedBy: null };
}

/**
 * The file that a load is of: the one that is wanted or, until that is whole, the one that served before, so
 * that an assistant that starts anew meanwhile does not leave clients without any. Undefined: there is neither.
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

/** Why it has to leave the memory; null where it may stay, or is not there. */
function getUnloadCause(
  desired: DesiredModel,
  { assistant }: ObservedModel,
  whole: StoredModel | undefined,
): string | null {
  if (!assistant.reachable || !assistant.model || !isLoadedByBerth(assistant.model)) return null;
  if (!desired.running) return "the spec wants it stopped";
  // Also one that failed: whoever asks for it by name would have it loaded.
  if (whole && assistant.verdict.type === "refused" && assistant.model.state !== "unloading")
    return "another one comes first where memory is short";
  return null;
}

/** Kept because somebody drove the control socket; others are files of the assistant's own folder. */
function isLoadedByBerth({ pinned }: AssistantModel): boolean {
  return pinned;
}

/** Why it has to be loaded; null where it is there as wanted, or the assistant brings it back by itself. */
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
  if (model.state === "unloaded") return "it is not in memory";
  return model.state === "failed" && !model.recovering ? "the last load failed" : null;
}

/** Answers, with the file and the settings that are wanted. */
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
