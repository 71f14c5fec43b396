import { timestamp } from "../../base/clock.ts";
import { formatBytes } from "../../base/units.ts";
import {
  type Condition,
  type ConditionStatus,
  type ConditionType,
  setCondition,
} from "../../resources/app-status.ts";
import type {
  ModelFileFacts,
  ModelPhase,
  ModelReconcileState,
  ModelStatus,
} from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";
import type { AssistantModel } from "./assistant/port.ts";
import type { DesiredModel } from "./desired-model.ts";
import type { StoredModel } from "./files/port.ts";
import type { JobState, JobStep } from "./model-jobs.ts";
import { isLoadedAsWanted, type ModelPlan } from "./plan-model.ts";

/** The results of one reconcile run of a Model, from which the Model's status is derived. */
export interface ModelStatusInput {
  readonly resource: Resource<"Model">;
  readonly desired: DesiredModel;
  readonly nowMs: number;
  readonly memory: ModelReconcileState;
  /** The files on the disk; undefined if they are incomplete or do not match the spec. */
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

/** Derives the conditions and the phase of a Model. No other function sets them. */
export function deriveModelStatus(findings: ModelStatusInput): ModelStatus {
  const { resource, memory, stored, desired, facts, nowMs } = findings;
  const verdict = assessReadiness(findings);
  let conditions: readonly Condition[] = resource.status?.conditions ?? [];
  const set = (type: ConditionType, status: ConditionStatus | null, reason: Reason | null) => {
    conditions =
      status === null || reason === null
        ? conditions.filter((condition) => condition.type !== type)
        : setCondition(conditions, {
            type,
            status,
            ...reason,
            lastTransitionTime: timestamp(nowMs),
            observedGeneration: desired.generation,
          });
  };
  set("Ready", verdict.ready, toReason(verdict));
  if (findings.refused) set("Accepted", "False", findings.refused);
  else set("Accepted", "True", { reason: "Valid", message: "the spec is valid" });
  const downloaded = getDownloadedReason(findings);
  set("Downloaded", stored ? "True" : "False", downloaded);
  const [loaded, why] = deriveLoadedCondition(findings, verdict);
  set("Loaded", loaded, why);
  const isDone = verdict.ready === "True" || memory.stalled !== null || findings.refused !== null;
  set(
    "Progressing",
    isDone ? "False" : "True",
    isDone ? getDoneReason(verdict) : toReason(verdict),
  );
  set("Stalled", memory.stalled ? "True" : null, memory.stalled && toReason(memory.stalled));

  const model = getAssistantModel(findings);
  const pin = getCurrentPin(findings);
  const files = stored
    ? stored.files
    : (pin?.model.files ?? []).map(({ name, sizeBytes, sha256 }) => ({
        name,
        sizeBytes,
        sha256,
      }));
  const sizes = files.map(({ sizeBytes }) => sizeBytes);
  return {
    phase: verdict.phase,
    observedGeneration: desired.generation,
    conditions,
    commit: pin?.model.commit ?? null,
    files,
    sizeBytes:
      files.length === 0 || sizes.includes(null)
        ? null
        : sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0),
    downloadedBytes: findings.storedBytes,
    facts,
    loaded:
      model?.state === "resident"
        ? {
            memoryBytes: model.memoryBytes,
            contextTokens: model.contextTokens,
            sequences: model.sequences,
            since: model.loadedAt,
          }
        : null,
    nextRetryAt: memory.failure ? timestamp(memory.failure.retryAt) : null,
    memory,
  };
}

interface Readiness extends Reason {
  readonly phase: ModelPhase;
  readonly ready: ConditionStatus;
}

function assessReadiness(findings: ModelStatusInput): Readiness {
  const { resource, desired, memory, stored, assistant, plan } = findings;
  const model = getAssistantModel(findings);
  const phase = derivePhase(findings);
  const no = (reason: Reason): Readiness => ({
    phase,
    ready: "False",
    reason: reason.reason,
    message: reason.message,
  });
  if (resource.metadata.deletionTimestamp !== null)
    return { phase: "deleting", ready: "False", reason: "Deleting", message: "being deleted" };
  if (findings.refused) return no(findings.refused);
  if (memory.stalled) return no(toReason(memory.stalled));
  if (memory.failure) return no(memory.failure);
  if (!stored) return no(getDownloadedReason(findings));
  if (desired.running && !assistant.reachable)
    return {
      phase,
      ready: "Unknown",
      reason: "AssistantUnreachable",
      message: assistant.message,
    };
  if (isResolving(findings, "resolve")) return no(getProgressReason(findings, "resolve"));
  if (!desired.running) {
    if (model && model.state !== "unloaded" && model.pinned)
      return no({ reason: "Stopping", message: "being unloaded from memory" });
    return {
      phase,
      ready: "True",
      reason: "OnDisk",
      message: `the model is on the disk (${formatBytes(findings.storedBytes)}), and not in memory, as the spec requests`,
    };
  }
  if (plan?.blockedBy) return no(plan.blockedBy);
  if (assistant.reachable && isLoadedAsWanted(desired, stored, model))
    return {
      phase,
      ready: "True",
      reason: "Running",
      message: `answers as "${desired.name}" at ${assistant.url}/v1`,
    };
  if (model?.error) return no({ reason: "LoadFailed", message: model.error.message });
  return no({ reason: "Loading", message: "being loaded into memory" });
}

function derivePhase(findings: ModelStatusInput): ModelPhase {
  const { desired, memory, stored, job, plan } = findings;
  const model = getAssistantModel(findings);
  if (model?.pinned && model.state === "unloading") return "stopping";
  if (model?.pinned && model.state === "resident") {
    if (!desired.running) return "stopping";
    return isBeingReplaced(findings) ? "starting" : "running";
  }
  if (findings.refused && !stored) return "absent";
  if (memory.stalled) return "failed";
  if (model?.pinned && model.state === "loading") return "starting";
  if (stored) {
    const wantsLoad = plan?.operations.some(({ type }) => type === "loadModel") ?? false;
    const isRecovering = model?.pinned === true && model.state === "failed";
    if (job?.step === "load" || (desired.running && (wantsLoad || isRecovering)))
      return plan?.blockedBy ? "ready" : "starting";
    return "ready";
  }
  if (job !== undefined && job.state.type !== "failed") return "downloading";
  if (memory.failure) return "failed";
  return findings.storedBytes > 0 ? "downloading" : "absent";
}

/** True while the model is loaded again with other settings or from another file. */
function isBeingReplaced(findings: ModelStatusInput): boolean {
  const { desired, stored, job } = findings;
  if (job?.step !== "load" || job.state.type !== "running") return false;
  return !isLoadedAsWanted(desired, stored, getAssistantModel(findings));
}

function isResolving({ plan, job }: ModelStatusInput, step: "resolve"): boolean {
  return (
    job?.step === step || (plan?.operations.some(({ type }) => type === "resolveSource") ?? false)
  );
}

function getDownloadedReason(findings: ModelStatusInput): Reason {
  const { stored, memory } = findings;
  if (stored)
    return {
      reason: "Verified",
      message: stored.files.every(({ sha256 }) => sha256 !== null)
        ? "all files are on the disk and verified"
        : "the file exists; there is no digest to compare it with",
    };
  if (findings.refused) return findings.refused;
  if (memory.stalled) return toReason(memory.stalled);
  if (memory.failure) return toReason(memory.failure);
  return getProgressReason(findings, "download");
}

/** Returns the resolved source of the current spec; null if only the source of an older spec was resolved. */
function getCurrentPin({ memory, desired }: ModelStatusInput): ModelReconcileState["pin"] {
  return memory.pin?.inputs === desired.inputs ? memory.pin : null;
}

/**
 * Returns the reason for a status condition of a model that is not ready yet: its source is being resolved, or its
 * files are being downloaded.
 */
function getProgressReason(findings: ModelStatusInput, expected: string): Reason {
  const { job, storedBytes } = findings;
  const pin = getCurrentPin(findings);
  const step = job?.step ?? expected;
  if (step === "resolve" || pin === null)
    return { reason: "ResolvingSource", message: "resolving the source" };
  const total = pin.model.files.reduce<number | null>(
    (sum, { sizeBytes }) => (sum === null || sizeBytes === null ? null : sum + sizeBytes),
    0,
  );
  const share =
    total === null || total === 0
      ? formatBytes(storedBytes)
      : `${Math.floor((100 * storedBytes) / total)} % of ${formatBytes(total)}`;
  if (job?.state.type === "waiting")
    return { reason: "WaitingForDownload", message: "waiting for other downloads" };
  const isVerifying = job?.state.type === "running" && job.state.progress?.step === "verifying";
  return isVerifying
    ? { reason: "Verifying", message: "all files are on the disk; comparing their digests" }
    : { reason: "Downloading", message: `${share} downloaded` };
}

function deriveLoadedCondition(
  findings: ModelStatusInput,
  verdict: Readiness,
): readonly [ConditionStatus, Reason] {
  const { desired, assistant } = findings;
  const model = getAssistantModel(findings);
  if (!assistant.reachable)
    return ["Unknown", { reason: "AssistantUnreachable", message: assistant.message }];
  if (model?.state === "resident" && desired.running && !isBeingReplaced(findings))
    return ["True", { reason: "Running", message: `answers at ${assistant.url}/v1` }];
  if (!desired.running)
    return ["False", { reason: "NotWanted", message: "the spec sets running: false" }];
  return ["False", toReason(verdict)];
}

function getDoneReason(verdict: Readiness): Reason {
  return verdict.ready === "True" ? { reason: "Complete", message: "complete" } : toReason(verdict);
}

function toReason({ reason, message }: Reason): Reason {
  return { reason, message };
}

function getAssistantModel({ assistant }: ModelStatusInput) {
  return assistant.reachable ? assistant.model : undefined;
}
