import { formatBytes } from "../../base/units.ts";
import type { ModelProgress } from "../../controller/port.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { ModelPhase, ModelStatus } from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ModelView } from "../../resources/wire/models.ts";

export type ModelStateView = Pick<
  ModelView,
  | "status"
  | "step"
  | "size_bytes"
  | "downloaded_bytes"
  | "progress"
  | "bytes_per_second"
  | "message"
  | "error"
>;

/** Returns the current state of a Model: its status, updated with `progress`. Pure. */
export function modelStateView(
  model: Resource<"Model">,
  progress: ModelProgress | undefined,
): ModelStateView {
  const { status } = model;
  const transfer =
    progress?.step === "downloading" || progress?.step === "verifying" ? progress : undefined;
  const size = transfer?.totalBytes ?? status?.sizeBytes ?? null;
  const stored = status?.downloadedBytes ?? 0;
  const downloaded =
    transfer === undefined
      ? stored
      : transfer.step === "downloading"
        ? transfer.doneBytes
        : (size ?? transfer.doneBytes);
  const phase = getVisiblePhase(model, progress);
  const isWhole = transfer === undefined && isOnDisk(model);
  return {
    status: phase,
    step: progress?.step ?? null,
    size_bytes: size,
    downloaded_bytes: downloaded,
    progress: isWhole ? 1 : getFraction(transfer?.doneBytes ?? stored, size),
    bytes_per_second: transfer?.bytesPerSecond ?? null,
    message:
      transfer && isObserved(model) ? describeTransfer(transfer, size) : getStatusMessage(model),
    error: getErrorText(model),
  };
}

/** Returns true if the status shows complete and verified files, even if a newer spec requests other files. */
export function isOnDisk({ status }: Resource<"Model">): boolean {
  return (
    status !== null &&
    (status.loaded !== null || findCondition(status.conditions, "Downloaded")?.status === "True")
  );
}

/** Returns true if the status is about the newest generation. */
export function isObserved(
  model: Resource<"Model">,
): model is Resource<"Model"> & { readonly status: ModelStatus } {
  return model.status !== null && model.status.observedGeneration >= model.metadata.generation;
}

/** Returns the phase, or a preliminary one if the status is about an older generation. */
function getVisiblePhase(
  model: Resource<"Model">,
  progress: ModelProgress | undefined,
): ModelPhase {
  const { metadata, spec, status } = model;
  if (metadata.deletionTimestamp !== null) return "deleting";
  const phase = status?.phase ?? "absent";
  if (phase === "absent") return progress === undefined ? "absent" : "downloading";
  if (isObserved(model)) return phase;
  if (phase === "running") return spec.running === true ? "starting" : "stopping";
  if (phase !== "failed") return phase;
  return isOnDisk(model) ? "ready" : "absent";
}

function getStatusMessage(model: Resource<"Model">): string {
  const { metadata, status } = model;
  if (metadata.deletionTimestamp !== null) return "being deleted";
  if (status === null) return "accepted, and not reconciled yet";
  if (!isObserved(model)) return `generation ${metadata.generation} is not reconciled yet`;
  const stalled = findCondition(status.conditions, "Stalled");
  if (stalled?.status === "True") return stalled.message;
  return findCondition(status.conditions, "Ready")?.message ?? "";
}

/**
 * Returns a message about the progress of a download. It replaces the message of the Ready condition, which is older.
 */
function describeTransfer({ step, doneBytes }: ModelProgress, size: number | null): string {
  const done =
    size === null ? formatBytes(doneBytes) : `${Math.floor(100 * getFraction(doneBytes, size))} %`;
  const all = size === null ? "" : ` of ${formatBytes(size)}`;
  return step === "verifying"
    ? `${done}${all} compared with its digest`
    : `${done}${all} downloaded`;
}

/** Returns the error message of a Model that has failed or waits for a retry; otherwise null. */
function getErrorText(model: Resource<"Model">): string | null {
  if (!isObserved(model) || model.metadata.deletionTimestamp !== null) return null;
  const { conditions, nextRetryAt } = model.status;
  const stalled = findCondition(conditions, "Stalled");
  if (stalled?.status === "True") return stalled.message;
  return nextRetryAt === null ? null : (findCondition(conditions, "Ready")?.message ?? null);
}

function getFraction(bytes: number, of: number | null): number {
  return of === null || of <= 0 ? 0 : Math.min(1, bytes / of);
}
