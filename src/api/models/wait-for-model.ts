import { BerthError, ConflictError, NotFoundError } from "../../base/errors.ts";
import { type Condition, findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ApiContext } from "../api-context.ts";
import { type TimedOut, waitForChange } from "../wait-for-change.ts";

export type ModelWaitOutcome =
  | { readonly type: "done" }
  | { readonly type: "failed"; readonly reason: string; readonly message: string }
  | { readonly type: "deleted" };

export interface ModelWaitTarget {
  readonly name: string;
  readonly uid: string;
  /**
   * The generation of the Model that the request wrote. The wait ends only with an outcome of this generation or of a
   * newer one.
   */
  readonly generation: number;
  /** The state to wait for; settled means running if the spec requests that, otherwise downloaded. */
  readonly until: "downloaded" | "running" | "stopped" | "settled" | "deleted";
}

export function waitForModel(
  context: Pick<ApiContext, "store" | "hub" | "clock" | "control">,
  target: ModelWaitTarget,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ModelWaitOutcome | TimedOut> {
  const { name } = target;
  const observe = () =>
    assessModel(context.store.get("Model", name), target, isAssistantOff(context.control));
  return waitForChange(context, { kind: "Model", name, observe }, timeoutMs, signal);
}

/** Returns true if the assistant is off, in which case no model is loaded. */
function isAssistantOff(control: Pick<ApiContext["control"], "assistant">): boolean {
  return control.assistant().state === "off";
}

/** Returns the outcome of a write, or undefined while it is pending. Pure. */
export function assessModel(
  model: Resource<"Model"> | undefined,
  target: ModelWaitTarget,
  isOff: boolean,
): ModelWaitOutcome | undefined {
  if (model === undefined || model.metadata.uid !== target.uid) return { type: "deleted" };
  if (target.until === "deleted" || model.metadata.deletionTimestamp !== null) return undefined;
  const { status } = model;
  if (status === null || status.observedGeneration < target.generation) return undefined;
  const wanted = target.until === "settled" ? getSettledState(model) : target.until;
  if (wanted === "stopped" && status.loaded === null && !isInTransition(status.phase)) {
    return { type: "done" };
  }
  const failure = findFailure(model, target.generation, wanted);
  if (failure !== undefined) return failure;
  if (wanted === "running") return assessRunning(model, isOff);
  const isDone = wanted === "downloaded" && isDownloaded(model, target.generation);
  return isDone ? { type: "done" } : undefined;
}

function getSettledState(model: Resource<"Model">): "running" | "downloaded" {
  return model.spec.running === true ? "running" : "downloaded";
}

function isInTransition(phase: string): boolean {
  return phase === "starting" || phase === "running" || phase === "stopping";
}

function assessRunning(
  { spec, status }: Resource<"Model">,
  isOff: boolean,
): ModelWaitOutcome | undefined {
  if (status?.phase === "running") return { type: "done" };
  if (spec.running !== true) {
    return { type: "failed", reason: "Stopped", message: "the model was stopped in the meantime" };
  }
  const isWhole = findCondition(status?.conditions ?? [], "Downloaded")?.status === "True";
  if (!isOff || !isWhole) return undefined;
  const message = "the model is on the disk, but the assistant, which would load the model, is off";
  return { type: "failed", reason: "AssistantUnreachable", message };
}

/** Returns true if the files are complete, and no requested verification is pending. */
function isDownloaded({ status }: Resource<"Model">, generation: number): boolean {
  const downloaded = findCondition(status?.conditions ?? [], "Downloaded");
  return (
    downloaded?.status === "True" &&
    downloaded.observedGeneration >= generation &&
    status?.memory.refresh === null
  );
}

/**
 * Reasons that end a wait, because the user has to free space first. When space is free, Berth continues without
 * another request.
 */
const capacityReasons: Readonly<Record<"running" | "downloaded" | "stopped", readonly string[]>> = {
  running: ["DiskFull", "InsufficientMemory"],
  downloaded: ["DiskFull"],
  stopped: [],
};

function findFailure(
  { status }: Resource<"Model">,
  generation: number,
  wanted: "running" | "downloaded" | "stopped",
): ModelWaitOutcome | undefined {
  const conditions = (status?.conditions ?? []).filter(
    (condition) => condition.observedGeneration >= generation,
  );
  const stalled = findCondition(conditions, "Stalled");
  if (stalled?.status === "True") return toFailure(stalled);
  const accepted = findCondition(conditions, "Accepted");
  if (accepted?.status === "False") return toFailure(accepted);
  const held = findCondition(conditions, "Ready");
  if (held?.status === "False" && capacityReasons[wanted].includes(held.reason))
    return toFailure(held);
  // A model that has a time for its next attempt has not failed for good: Berth retries it.
  if (status?.phase !== "failed" || status.nextRetryAt !== null) return undefined;
  return toFailure(findCondition(conditions, "Ready"));
}

function toFailure(condition: Condition | undefined): ModelWaitOutcome {
  return {
    type: "failed",
    reason: condition?.reason ?? "Failed",
    message: condition?.message ?? "it has failed",
  };
}

/** Returns true if the state of a model will not change by itself. */
export function isSettled(
  model: Resource<"Model">,
  control: Pick<ApiContext["control"], "assistant">,
): boolean {
  const { name, uid, generation } = model.metadata;
  const target = { name, uid, generation, until: "settled" } as const;
  return assessModel(model, target, isAssistantOff(control)) !== undefined;
}

/** Returns the error of a wait that ended with a failure. */
export function toWaitError(
  name: string,
  failure: { reason: string; message: string },
): BerthError {
  const message = `model "${name}" has failed: ${failure.message}`;
  const hint = `see GET /api/llm/models/${name}`;
  switch (failure.reason) {
    case "SourceNotFound":
      return new NotFoundError(message, hint);
    case "DiskFull":
      return new BerthError("disk_full", message, { hint });
    case "AssistantUnreachable":
      return new BerthError("assistant_unreachable", message, { hint });
    default:
      return new ConflictError("wrong_state", message, { hint });
  }
}
