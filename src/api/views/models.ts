import type { AssistantModel } from "../../controller/models/assistant/port.ts";
import type { ModelPlanReport, ModelProgress } from "../../controller/port.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { Manifest } from "../../resources/kinds.ts";
import { getRepository, listModelAliases } from "../../resources/model-aliases.ts";
import { parseModelSource } from "../../resources/model-source.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import type { ModelPhase } from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type {
  ModelDetails,
  ModelPlanView,
  ModelProgressView,
  ModelView,
} from "../../resources/wire/models.ts";
import type { EventRecord } from "../../store/store.ts";
import { conditionView } from "./conditions.ts";
import { eventView } from "./events.ts";
import { getDeclaringManager } from "./managers.ts";
import { modelStateView } from "./model-state.ts";
import { fieldChangeView } from "./plans.ts";

/** Returns the list item of a Model. `all` are all Models, because aliases must be unique among them. */
export function modelView(
  model: Resource<"Model">,
  progress: ModelProgress | undefined,
  all: readonly Resource<"Model">[],
): ModelView {
  const { metadata, spec, status } = model;
  const [file] = status?.files ?? [];
  const facts = status?.facts ?? null;
  const quantization =
    status?.memory.pin?.model.quantization ?? facts?.quantization ?? spec.quantization ?? null;
  const state = modelStateView(model, progress);
  return {
    ...createIdentityFields(metadata.name, spec, "resource"),
    description: metadata.annotations["description"] ?? null,
    ...state,
    ready: isModelReady(model),
    running: state.status === "running",
    file: file?.name ?? spec.file ?? null,
    sha256: file?.sha256 ?? spec.sha256 ?? null,
    commit: status?.commit ?? null,
    architecture: facts?.architecture ?? null,
    parameters: facts?.parameters ?? null,
    quantization,
    kind: facts?.kind ?? null,
    context_length:
      status?.loaded?.contextTokens ?? spec.contextSize ?? facts?.contextTokens ?? null,
    max_context_length: facts?.contextTokens ?? null,
    memory_bytes: status?.loaded?.memoryBytes ?? facts?.memoryBytes.wanted ?? null,
    aliases: listModelAliases({ name: metadata.name, spec, quantization }, all),
    managed_by: getDeclaringManager(model),
    created_at: metadata.creationTimestamp,
    loaded_at: status?.loaded?.since ?? null,
    generation: metadata.generation,
    observed_generation: status?.observedGeneration ?? 0,
    next_retry_at: status?.nextRetryAt ?? null,
  };
}

/** Returns the item of `GET /api/llm/models` for a catalog entry without a Model. */
export function catalogModelView({ metadata, spec }: Manifest<"Model">): ModelView {
  return {
    ...unknownFields,
    ...createIdentityFields(metadata.name, spec, "catalog"),
    description: metadata.annotations?.["description"] ?? null,
    status: "absent",
    message: "known from the catalog, not downloaded",
    file: spec.file ?? null,
    sha256: spec.sha256 ?? null,
    quantization: spec.quantization ?? null,
    context_length: spec.contextSize ?? null,
    aliases: listModelAliases(
      { name: metadata.name, spec, quantization: spec.quantization ?? null },
      [],
    ),
    managed_by: "catalog",
  };
}

/** Returns the item of `GET /api/llm/models` for a file in the assistant's own folder, which no Model describes. */
export function assistantModelView(model: AssistantModel): ModelView {
  const status = phaseByAssistantState[model.state];
  return {
    ...unknownFields,
    id: model.id,
    name: model.id,
    origin: "assistant",
    source: model.path === null ? null : "file",
    status,
    message: "a file in the assistant's own folder; it is loaded when a request asks for it",
    ready: status === "ready" || status === "running",
    running: status === "running",
    aliases: [],
    size_bytes: model.sizeBytes,
    downloaded_bytes: model.sizeBytes ?? 0,
    progress: 1,
    file: model.path?.split(/[/\\]/).at(-1) ?? null,
    context_length: model.contextTokens ?? model.wanted.contextTokens,
    memory_bytes: model.memoryBytes,
    managed_by: "assistant",
    loaded_at: model.loadedAt,
    error: model.error?.message ?? null,
  };
}

const phaseByAssistantState: Readonly<Record<AssistantModel["state"], ModelPhase>> = {
  unloaded: "ready",
  loading: "starting",
  resident: "running",
  unloading: "stopping",
  failed: "failed",
};

const unknownFields = {
  description: null,
  step: null,
  size_bytes: null,
  downloaded_bytes: 0,
  progress: 0,
  bytes_per_second: null,
  ready: false,
  running: false,
  file: null,
  sha256: null,
  revision: null,
  commit: null,
  architecture: null,
  parameters: null,
  quantization: null,
  kind: null,
  context_length: null,
  max_context_length: null,
  memory_bytes: null,
  created_at: null,
  loaded_at: null,
  generation: null,
  observed_generation: null,
  error: null,
  next_retry_at: null,
} as const;

function createIdentityFields(name: string, spec: ModelSpec, origin: "resource" | "catalog") {
  return {
    id: getRepository(spec) ?? name,
    name,
    origin,
    source: describeSource(spec),
    revision: spec.revision ?? null,
  };
}

/** Describes the source without secret parts of a URL, and without paths of the server, which only the spec shows. */
function describeSource(spec: ModelSpec): string {
  const parsed = parseModelSource(spec.source);
  if ("problem" in parsed || parsed.source.type === "local") return "file";
  const { source } = parsed;
  return source.type === "url" ? `${source.url.origin}${source.url.pathname}` : source.id;
}

export function modelDetails(
  item: ModelView,
  model: Resource<"Model">,
  events: readonly EventRecord[],
): ModelDetails {
  const { metadata, spec, status } = model;
  return {
    ...item,
    spec,
    labels: { ...metadata.labels },
    conditions: (status?.conditions ?? []).map((condition) => conditionView(condition)),
    files: (status?.files ?? []).map((file) => ({
      name: file.name,
      size_bytes: file.sizeBytes,
      sha256: file.sha256,
    })),
    memory: {
      loaded_bytes: status?.loaded?.memoryBytes ?? null,
      wanted_bytes: status?.facts?.memoryBytes.wanted ?? null,
      least_bytes: status?.facts?.memoryBytes.least ?? null,
    },
    sequences: status?.loaded?.sequences ?? null,
    owners: { ...metadata.owners },
    events: events.map((event) => eventView(event)),
  };
}

/**
 * Returns the details of a catalog entry or of a file in the assistant's folder, for which no Model exists. `spec` is
 * the catalog entry's spec, and null for a file.
 */
export function unmanagedModelDetails(item: ModelView, spec: ModelSpec | null): ModelDetails {
  return {
    ...item,
    spec,
    labels: {},
    conditions: [],
    files:
      item.file === null || item.origin === "catalog"
        ? []
        : [{ name: item.file, size_bytes: item.size_bytes, sha256: item.sha256 }],
    memory: {
      loaded_bytes: item.running ? item.memory_bytes : null,
      wanted_bytes: null,
      least_bytes: null,
    },
    sequences: null,
    owners: {},
    events: [],
  };
}

export function modelProgressView(item: ModelView): ModelProgressView {
  const { name, status, step, size_bytes, downloaded_bytes, progress } = item;
  const { bytes_per_second, message, error, next_retry_at } = item;
  return {
    name,
    status,
    step,
    size_bytes,
    downloaded_bytes,
    progress,
    bytes_per_second,
    message,
    error,
    next_retry_at,
  };
}

export function modelPlanView(plan: ModelPlanReport): ModelPlanView {
  return {
    model: plan.model,
    generation: plan.generation,
    operations: plan.operations.map(({ operation, target, cause }) => ({
      operation,
      target,
      cause,
    })),
    changes: plan.changes.map((change) => fieldChangeView(change)),
    blocked_by: plan.blockedBy,
  };
}

/** Returns true if the Model is not being deleted, and its condition Ready is True for the newest generation. */
export function isModelReady(model: Resource<"Model">): boolean {
  if (model.metadata.deletionTimestamp !== null) return false;
  const ready = findCondition(model.status?.conditions ?? [], "Ready");
  return ready?.status === "True" && ready.observedGeneration === model.metadata.generation;
}
