import { type Static, Type } from "typebox";
import { ModelSpec } from "../model-spec.ts";
import { modelPhases } from "../model-status.ts";
import { ConditionView } from "./apps.ts";
import { EventView } from "./events.ts";
import { dryRunFields, planFields } from "./plans.ts";
import {
  Component,
  closed,
  NullableInteger,
  NullableString,
  OneOf,
  StringMap,
} from "./wire-schema.ts";

const modelSteps = ["resolving", "waiting", "downloading", "verifying"] as const;
const NullableStep = Type.Unsafe<(typeof modelSteps)[number] | null>({
  type: ["string", "null"],
  enum: [...modelSteps, null],
  description:
    "the current step: resolving the source, waiting for other downloads, downloading, verifying",
});

const textOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ["string", "null"], description });
const integerOrNull = (description: string) =>
  Type.Unsafe<number | null>({ type: ["integer", "null"], description });

const modelOrigins = ["resource", "catalog", "assistant"] as const;

/** Progress of a model. Bytes are integers. */
const progressFields = {
  status: OneOf(modelPhases),
  step: NullableStep,
  size_bytes: integerOrNull("size of all files in bytes; null until it is known"),
  downloaded_bytes: Type.Integer({ description: "bytes on disk, of complete and partial files" }),
  progress: Type.Number({
    description: "progress of the current step from 0 to 1; 1 when everything is on disk",
  }),
  bytes_per_second: integerOrNull(
    "speed of the current step over the last seconds, in bytes per second",
  ),
  message: Type.String({ description: "explanation of the status for users, and what to do" }),
};

const itemFields = {
  id: Type.String({
    description:
      "repository id of the model, such as org/name (org%2Fname in a path); its name if there is no repository",
  }),
  name: Type.String({
    description: "name of the model, also in requests to the assistant",
  }),
  origin: Type.Unsafe<(typeof modelOrigins)[number]>({
    type: "string",
    enum: [...modelOrigins],
    description:
      "origin of the item. resource: a Model; catalog: an entry of the catalog that is not downloaded; assistant: a file in the assistant's own folder",
  }),
  source: textOrNull("source of the model: a repository id, a URL, or the word file"),
  description: NullableString,
  ...progressFields,
  ready: Type.Boolean({ description: "true if the model is as its newest spec requests" }),
  running: Type.Boolean({ description: "true if the model is loaded and answers requests" }),
  file: textOrNull("name of the file that is loaded; the first part of a split model"),
  sha256: textOrNull("sha256 of the file that is loaded"),
  revision: textOrNull("requested branch, tag or commit"),
  commit: textOrNull("the commit of the revision"),
  architecture: NullableString,
  parameters: integerOrNull("number of weights"),
  quantization: textOrNull("quantization such as Q4_K_M"),
  kind: Type.Unsafe<"chat" | "completion" | "embedding" | null>({
    type: ["string", "null"],
    enum: ["chat", "completion", "embedding", null],
    description: "kind of the model; null until its file has been read",
  }),
  context_length: integerOrNull(
    "context length in tokens as loaded, or as configured, or else the context length of the training",
  ),
  max_context_length: integerOrNull("context length of the model's training, in tokens"),
  memory_bytes: integerOrNull("memory in bytes that the model uses, or would use"),
  aliases: Type.Array(Type.String(), { description: "further ids of the model" }),
  managed_by: Type.String({
    description: "manager of the model: api, cli, file:<path>, catalog or assistant",
  }),
  created_at: textOrNull(
    "time at which the Model was created, as RFC 3339 in UTC; null if there is no Model",
  ),
  loaded_at: textOrNull("time at which the model was loaded"),
  generation: integerOrNull("generation of the Model; null if there is no Model"),
  observed_generation: NullableInteger,
  error: textOrNull("reason of a failure or of retries of the model"),
  next_retry_at: textOrNull(
    "time at which Berth retries after a failure; null if it does not retry",
  ),
};

export const ModelView = Type.Object(itemFields, closed);
export type ModelView = Static<typeof ModelView>;

export const ModelList = Type.Object(
  { models: Type.Array(ModelView), total: Type.Integer() },
  closed,
);
export type ModelList = Static<typeof ModelList>;

export const ModelFileView = Type.Object(
  {
    name: Type.String(),
    size_bytes: NullableInteger,
    sha256: textOrNull(
      "sha256 in hexadecimal; null if the source does not report it and the file is not downloaded yet",
    ),
  },
  closed,
);
export type ModelFileView = Static<typeof ModelFileView>;

export const ModelDetails = Type.Object(
  {
    ...itemFields,
    spec: Type.Unsafe<ModelSpec | null>({
      ...Component<ModelSpec>(
        "AnyModelSpec",
        "spec of the Model; null for a file in the assistant's own folder",
      ),
      type: ["object", "null"],
    }),
    labels: StringMap(),
    conditions: Type.Array(ConditionView),
    files: Type.Array(ModelFileView),
    memory: Type.Object(
      {
        loaded_bytes: integerOrNull("memory in bytes that the model uses now"),
        wanted_bytes: integerOrNull("memory in bytes with the settings that the engine prefers"),
        least_bytes: integerOrNull("memory in bytes with the smallest usable settings"),
      },
      closed,
    ),
    sequences: integerOrNull("number of requests that the loaded model answers concurrently"),
    owners: StringMap({ description: "manager of each field of the spec, by JSON Pointer" }),
    events: Type.Array(EventView, { description: "the last 20 events of the model, newest first" }),
  },
  closed,
);
export type ModelDetails = Static<typeof ModelDetails>;

/** The data of a `progress` event of a model. */
export const ModelProgressView = Type.Object(
  {
    name: Type.String(),
    ...progressFields,
    error: NullableString,
    next_retry_at: itemFields.next_retry_at,
  },
  closed,
);
export type ModelProgressView = Static<typeof ModelProgressView>;

export const ModelPlanView = Type.Object({ model: Type.String(), ...planFields }, closed);
export type ModelPlanView = Static<typeof ModelPlanView>;

/** The response to a dry run (`dry_run=true`) of a write to a Model: what the write would change. */
export const ModelDryRunReport = Type.Object(dryRunFields(ModelPlanView), closed);
export type ModelDryRunReport = Static<typeof ModelDryRunReport>;

/** The response to a stop with `dry_run=true`: one report for each model that would be stopped. */
export const ModelStopDryRun = Type.Object(
  { dry_run: Type.Literal(true), reports: Type.Array(ModelDryRunReport) },
  closed,
);
export type ModelStopDryRun = Static<typeof ModelStopDryRun>;

const ModelId = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: "name or id of a model",
});

export const StartModelBody = Type.Object({ model: ModelId }, closed);
export type StartModelBody = Static<typeof StartModelBody>;

export const StopModelBody = Type.Unsafe<{ model?: string } | null>({
  type: ["object", "null"],
  properties: { model: ModelId },
  additionalProperties: false,
  description: "name or id of the model to stop; without it, all running models are stopped",
});
