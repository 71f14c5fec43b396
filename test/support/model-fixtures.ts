import type { AssistantModel } from "../../src/controller/models/assistant/port.ts";
import type { Condition } from "../../src/resources/app-status.ts";
import { API_VERSION, type Manifest } from "../../src/resources/kinds.ts";
import type { ModelSpec } from "../../src/resources/model-spec.ts";
import { emptyModelReconcileState, type ModelStatus } from "../../src/resources/model-status.ts";
import { MODEL_FINALIZER, type Resource } from "../../src/resources/resource.ts";
import type { Store } from "../../src/store/store.ts";
import { condition } from "./api-harness.ts";

/** Creates a Model through the store. */
export function putModel(
  store: Store,
  name: string,
  spec: ModelSpec = { source: `org/${name}` },
  manager = "api",
  annotations: Readonly<Record<string, string>> = {},
): Resource<"Model"> {
  return store.apply({
    kind: "Model",
    name,
    manager,
    actor: { name: "user:admin", scope: "admin" },
    mode: "replace",
    spec,
    annotations,
    declares: manager.startsWith("file:"),
  }).resource;
}

export function requireModel(store: Store, name: string): Resource<"Model"> {
  const model = store.get("Model", name);
  if (!model) throw new Error(`there is no model ${name}`);
  return model;
}

/** Writes a status for the newest generation, as the reconciler does. */
export function setModelStatus(
  store: Store,
  name: string,
  status: (generation: number) => ModelStatus,
): void {
  const { uid, generation } = requireModel(store, name).metadata;
  store.setStatus("Model", name, uid, status(generation));
}

/** Returns a file in the assistant's own folder. By default it is not loaded. */
export function assistantModel(id: string, rest: Partial<AssistantModel> = {}): AssistantModel {
  return {
    id,
    aliases: [],
    path: `/srv/models/${id}.gguf`,
    sizeBytes: 77,
    state: "unloaded",
    pinned: false,
    recovering: false,
    memoryBytes: null,
    wanted: { contextTokens: null, sequences: null, deterministic: null },
    contextTokens: null,
    sequences: null,
    loadedAt: null,
    error: null,
    ...rest,
  };
}

/** Removes the finalizer of a Model, as the reconciler does after its cleanup. */
export function finishModelDeletion(store: Store, name: string): void {
  store.removeFinalizer("Model", name, MODEL_FINALIZER);
}

/** Returns the status of a model that is on the disk and, as desired, not loaded. */
export function modelStatus(generation: number, rest: Partial<ModelStatus> = {}): ModelStatus {
  return {
    phase: "ready",
    observedGeneration: generation,
    conditions: [
      condition("Ready", "True", generation, { reason: "OnDisk", message: "on the disk" }),
      condition("Downloaded", "True", generation, { reason: "Verified" }),
      condition("Loaded", "False", generation, { reason: "NotWanted" }),
    ],
    commit: "c0ffee",
    files: [{ name: "small-q4_k_m.gguf", sizeBytes: 4000, sha256: "ab".repeat(32) }],
    sizeBytes: 4000,
    downloadedBytes: 4000,
    facts: {
      architecture: "llama",
      name: "Small",
      parameters: 1_000_000,
      quantization: "Q4_K_M",
      contextTokens: 32_768,
      kind: "chat",
      memoryBytes: { wanted: 9000, least: 5000 },
    },
    loaded: null,
    nextRetryAt: null,
    memory: emptyModelReconcileState,
    ...rest,
  };
}

/** Returns the status of a loaded model that answers requests. */
export function runningStatus(generation: number): ModelStatus {
  return modelStatus(generation, {
    phase: "running",
    conditions: [
      condition("Ready", "True", generation, { reason: "Running", message: "answers" }),
      condition("Downloaded", "True", generation),
      condition("Loaded", "True", generation),
    ],
    loaded: {
      memoryBytes: 8000,
      contextTokens: 8192,
      sequences: 4,
      since: "2030-01-01T00:00:00.000Z",
    },
  });
}

/**
 * Returns the status of a model without files. The condition Ready has `reason` and `message`, and the failure is
 * not retried.
 */
export function failedStatus(generation: number, reason: string, message: string): ModelStatus {
  const said = { reason, message };
  return absentStatus(generation, "failed", [
    condition("Ready", "False", generation, said),
    condition("Stalled", "True", generation, said),
  ]);
}

export function absentStatus(
  generation: number,
  phase: ModelStatus["phase"],
  conditions: readonly Condition[],
): ModelStatus {
  return modelStatus(generation, {
    phase,
    conditions,
    commit: null,
    files: [],
    sizeBytes: null,
    downloadedBytes: 0,
    facts: null,
  });
}

export function modelManifest(name: string, spec: ModelSpec): Manifest<"Model"> {
  return { apiVersion: API_VERSION, kind: "Model", metadata: { name }, spec };
}
