import { timestamp } from "../../base/clock.ts";
import { formatBytes } from "../../base/units.ts";
import type { ModelMemory, ModelPhase, ModelStatus } from "../../resources/model-status.ts";
import {
  type Condition,
  type ConditionStatus,
  type ConditionType,
  setCondition,
} from "../../resources/status.ts";
import type { Reason } from "../reason.ts";
import type { ModelFindings } from "./findings.ts";
import { isLoadedAsWanted } from "./plan.ts";

/** The only place that says whether a Model is Ready, and what its phase is called. */
export function modelStatus(findings: ModelFindings): ModelStatus {
  const { resource, memory, stored, desired, facts, nowMs } = findings;
  const verdict = judge(findings);
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
  set("Ready", verdict.ready, reasonOf(verdict));
  if (findings.refused) set("Accepted", "False", findings.refused);
  else set("Accepted", "True", { reason: "Valid", message: "the spec is valid" });
  const downloaded = downloadedOf(findings);
  set("Downloaded", stored ? "True" : "False", downloaded);
  const [loaded, why] = loadedOf(findings, verdict);
  set("Loaded", loaded, why);
  const isDone = verdict.ready === "True" || memory.stalled !== null || findings.refused !== null;
  set("Progressing", isDone ? "False" : "True", isDone ? doneReason(verdict) : reasonOf(verdict));
  set("Stalled", memory.stalled ? "True" : null, memory.stalled && reasonOf(memory.stalled));

  const model = modelOf(findings);
  const pin = pinOf(findings);
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

interface Verdict extends Reason {
  readonly phase: ModelPhase;
  readonly ready: ConditionStatus;
}

function judge(findings: ModelFindings): Verdict {
  const { resource, desired, memory, stored, assistant, plan } = findings;
  const model = modelOf(findings);
  const phase = phaseOf(findings);
  const no = (reason: Reason): Verdict => ({
    phase,
    ready: "False",
    reason: reason.reason,
    message: reason.message,
  });
  if (resource.metadata.deletionTimestamp !== null)
    return { phase: "deleting", ready: "False", reason: "Deleting", message: "being deleted" };
  if (findings.refused) return no(findings.refused);
  if (memory.stalled) return no(reasonOf(memory.stalled));
  if (memory.failure) return no(memory.failure);
  if (!stored) return no(downloadedOf(findings));
  if (desired.running && !assistant.reachable)
    return {
      phase,
      ready: "Unknown",
      reason: "AssistantUnreachable",
      message: assistant.message,
    };
  if (isPlanned(findings, "resolve")) return no(underWay(findings, "resolve"));
  if (!desired.running) {
    if (model && model.state !== "unloaded" && model.pinned)
      return no({ reason: "Stopping", message: "being taken out of memory" });
    return {
      phase,
      ready: "True",
      reason: "OnDisk",
      message: `on the disk, ${formatBytes(findings.storedBytes)}; not in memory, as the spec wants it`,
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

function phaseOf(findings: ModelFindings): ModelPhase {
  const { desired, memory, stored, job, plan } = findings;
  const model = modelOf(findings);
  if (model?.pinned && model.state === "unloading") return "stopping";
  if (model?.pinned && model.state === "resident") {
    if (!desired.running) return "stopping";
    return isExchanged(findings) ? "starting" : "running";
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
  const isAtWork = job !== undefined && job.state.type !== "failed";
  return isAtWork || findings.storedBytes > 0 ? "downloading" : "absent";
}

/** The assistant was told to put it there with other settings, or from another file, and is about to. */
function isExchanged(findings: ModelFindings): boolean {
  const { desired, stored, job } = findings;
  if (job?.step !== "load" || job.state.type !== "running") return false;
  return !isLoadedAsWanted(desired, stored, modelOf(findings));
}

function isPlanned({ plan, job }: ModelFindings, step: "resolve"): boolean {
  return (
    job?.step === step || (plan?.operations.some(({ type }) => type === "resolveSource") ?? false)
  );
}

function downloadedOf(findings: ModelFindings): Reason {
  const { stored, memory } = findings;
  if (stored)
    return {
      reason: "Verified",
      message: stored.files.every(({ sha256 }) => sha256 !== null)
        ? "every file is on the disk, and is what it should be"
        : "the file is there; nobody named a digest to compare it with",
    };
  if (findings.refused) return findings.refused;
  if (memory.stalled) return reasonOf(memory.stalled);
  if (memory.failure) return reasonOf(memory.failure);
  return underWay(findings, "download");
}

/** What the source stands for; null where that is known of an older spec only. */
function pinOf({ memory, desired }: ModelFindings): ModelMemory["pin"] {
  return memory.pin?.inputs === desired.inputs ? memory.pin : null;
}

/** What is being done about the files. */
function underWay(findings: ModelFindings, expected: string): Reason {
  const { job, storedBytes } = findings;
  const pin = pinOf(findings);
  const step = job?.step ?? expected;
  if (step === "resolve" || pin === null)
    return { reason: "ResolvingSource", message: "the source is asked what it has" };
  const total = pin.model.files.reduce<number | null>(
    (sum, { sizeBytes }) => (sum === null || sizeBytes === null ? null : sum + sizeBytes),
    0,
  );
  const share =
    total === null || total === 0
      ? formatBytes(storedBytes)
      : `${Math.floor((100 * storedBytes) / total)} % of ${formatBytes(total)}`;
  if (job?.state.type === "waiting")
    return { reason: "WaitingForDownload", message: "other downloads come first" };
  const isVerifying = job?.state.type === "running" && job.state.progress?.step === "verifying";
  return isVerifying
    ? { reason: "Verifying", message: "everything is there, and is compared with its digest" }
    : { reason: "Downloading", message: `${share} downloaded` };
}

function loadedOf(findings: ModelFindings, verdict: Verdict): readonly [ConditionStatus, Reason] {
  const { desired, assistant } = findings;
  const model = modelOf(findings);
  if (!assistant.reachable)
    return ["Unknown", { reason: "AssistantUnreachable", message: assistant.message }];
  if (model?.state === "resident" && desired.running && !isExchanged(findings))
    return ["True", { reason: "Running", message: `answers at ${assistant.url}/v1` }];
  if (!desired.running) return ["False", { reason: "NotWanted", message: "it is not to run" }];
  return ["False", reasonOf(verdict)];
}

function doneReason(verdict: Verdict): Reason {
  return verdict.ready === "True" ? { reason: "Complete", message: "complete" } : reasonOf(verdict);
}

function reasonOf({ reason, message }: Reason): Reason {
  return { reason, message };
}

function modelOf({ assistant }: ModelFindings) {
  return assistant.reachable ? assistant.model : undefined;
}
