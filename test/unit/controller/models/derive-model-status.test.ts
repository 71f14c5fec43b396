import { describe, expect, test } from "vitest";
import type { AssistantModel } from "../../../../src/controller/models/assistant/port.ts";
import {
  deriveModelStatus,
  type ModelStatusInput,
} from "../../../../src/controller/models/derive-model-status.ts";
import { desiredModel } from "../../../../src/controller/models/desired-model.ts";
import { type ConditionType, findCondition } from "../../../../src/resources/app-status.ts";
import type { ModelSpec } from "../../../../src/resources/model-spec.ts";
import {
  emptyModelReconcileState,
  type ModelReconcileState,
} from "../../../../src/resources/model-status.ts";
import type { Resource } from "../../../../src/resources/resource.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";

const pinned = createResolvedModel("org/x", {
  commit: "c".repeat(40),
  bytes: 2_000,
  memoryBytes: 1,
});
const stored = {
  path: "/models/x.gguf",
  files: [{ name: "x.gguf", sizeBytes: 2_000, sha256: "a".repeat(64) }],
};

const resource = (
  spec: Partial<ModelSpec> = {},
  metadata: Partial<Resource<"Model">["metadata"]> = {},
): Resource<"Model"> => ({
  apiVersion: "berth.dev/v1",
  kind: "Model",
  metadata: {
    name: "x",
    uid: "1",
    labels: {},
    annotations: {},
    generation: 3,
    resourceVersion: 9,
    creationTimestamp: "2030-01-01T00:00:00.000Z",
    deletionTimestamp: null,
    finalizers: [],
    owners: {},
    managers: {},
    ...metadata,
  },
  spec: { source: "org/x", ...spec },
  status: null,
});

const resident: AssistantModel = {
  id: "x",
  aliases: [],
  path: stored.path,
  sizeBytes: 1,
  state: "resident",
  pinned: true,
  memoryBytes: 700,
  wanted: { contextTokens: null, sequences: null, deterministic: null },
  contextTokens: 4_096,
  sequences: 8,
  loadedAt: "2030-01-01T00:00:00.000Z",
  error: null,
  recovering: false,
};
const failedModel = {
  ...resident,
  state: "failed",
  error: { code: "engine_failed", message: "the engine ended" },
} as const;
const url = "http://127.0.0.1:7777";
const known = (model: AssistantModel | undefined) => ({ reachable: true, url, model }) as const;
const away = { reachable: false, message: "it does not answer" } as const;
const noPlan = { operations: [], blockedBy: null };
const toLoad = {
  operations: [{ type: "loadModel", target: "x", cause: "" }],
  blockedBy: null,
} as const;
const blocked = {
  ...noPlan,
  blockedBy: { reason: "WaitingForMemory", message: "waits until b left" },
};
const stalled = { inputs: "", reason: "SourceNotFound", message: "there is none" };
const failure = {
  inputs: "",
  step: "download",
  count: 2,
  reason: "SourceUnreachable",
  message: "no answer",
  retryAt: Date.UTC(2030, 0, 2),
};
const refused = { reason: "SecretNotFound", message: "it is not there" };
const running = { type: "running", progress: null, bytesPerSecond: null } as const;

type More = Partial<Omit<ModelStatusInput, "memory" | "resource">> & {
  readonly spec?: Partial<ModelSpec>;
  readonly memory?: Partial<ModelReconcileState>;
  readonly deleted?: boolean;
};
const status = ({ spec = {}, memory = {}, deleted = false, ...more }: More) => {
  const deletionTimestamp = deleted ? "2030-01-01T00:00:00.000Z" : null;
  const subject = resource(spec, { deletionTimestamp });
  const desired = desiredModel(subject);
  return deriveModelStatus({
    resource: subject,
    desired,
    nowMs: Date.UTC(2030, 0, 1),
    memory: {
      ...emptyModelReconcileState,
      pin: { inputs: desired.inputs, model: pinned },
      ...memory,
    },
    stored,
    storedBytes: 2_000,
    facts: null,
    assistant: known(undefined),
    plan: noPlan,
    job: undefined,
    refused: null,
    ...more,
  });
};
const condition = (more: More, type: ConditionType) => {
  const found = findCondition(status(more).conditions, type);
  return found && `${found.status} ${found.reason}: ${found.message}`;
};
const wanted = { running: true };

test("the status of a running Model contains its files, their sizes, and the facts about the loaded model", () => {
  const more = { spec: wanted, assistant: known(resident) };
  expect(status(more)).toMatchObject({
    phase: "running",
    observedGeneration: 3,
    commit: pinned.commit,
    files: stored.files,
    sizeBytes: 2_000,
    downloadedBytes: 2_000,
    loaded: { memoryBytes: 700, contextTokens: 4_096, sequences: 8, since: resident.loadedAt },
    nextRetryAt: null,
  });
  expect(condition(more, "Ready")).toBe(`True Running: answers as "x" at ${url}/v1`);
  expect(condition(more, "Accepted")).toBe("True Valid: the spec is valid");
  expect(condition(more, "Downloaded")).toMatch(/^True Verified: all files are on the disk/);
  expect(condition(more, "Loaded")).toBe(`True Running: answers at ${url}/v1`);
  expect(condition(more, "Progressing")).toBe("False Complete: complete");
  expect(condition(more, "Stalled")).toBeUndefined();
});

describe("the phase of a Model", () => {
  test.each<[string, string, More]>([
    ["deleting", "a Model that is being deleted", { deleted: true, assistant: known(resident) }],
    ["ready", "a Model on the disk that should not run", {}],
    [
      "stopping",
      "a model that is being unloaded",
      { assistant: known({ ...resident, state: "unloading" }) },
    ],
    [
      "stopping",
      "a model that is being unloaded for another one",
      { spec: wanted, assistant: known({ ...resident, state: "unloading" }) },
    ],
    ["stopping", "a loaded model that should not run", { assistant: known(resident) }],
    [
      "ready",
      "a model that was loaded on demand",
      { assistant: known({ ...resident, pinned: false }) },
    ],
    [
      "starting",
      "a model that is being loaded",
      { spec: wanted, assistant: known({ ...resident, state: "loading" }) },
    ],
    [
      "ready",
      "a model that is being loaded on demand",
      { assistant: known({ ...resident, pinned: false, state: "loading" }) },
    ],
    ["starting", "a model to be loaded", { spec: wanted, plan: toLoad }],
    [
      "starting",
      "a model whose load is running",
      { spec: wanted, job: { step: "load", state: running } },
    ],
    ["starting", "a crashed model", { spec: wanted, assistant: known(failedModel) }],
    [
      "ready",
      "a model that waits for memory",
      { spec: wanted, assistant: known(failedModel), plan: blocked },
    ],
    [
      "ready",
      "a model that waits while its load is being cancelled",
      { spec: wanted, plan: blocked, job: { step: "load", state: running } },
    ],
    ["ready", "a failed model that should not run", { assistant: known(failedModel) }],
    [
      "running",
      "a running model with a failure of another step",
      { spec: wanted, assistant: known(resident), memory: { stalled } },
    ],
    [
      "running",
      "a running model whose credential was deleted",
      { spec: wanted, assistant: known(resident), refused },
    ],
    ["failed", "a stalled model", { memory: { stalled } }],
    [
      "failed",
      "a stalled model without files",
      { memory: { stalled }, stored: undefined, storedBytes: 0 },
    ],
    ["absent", "a model without its credential", { stored: undefined, refused }],
    ["ready", "a model on the disk without its credential", { refused }],
    ["absent", "a model without files and jobs", { stored: undefined, storedBytes: 0 }],
    [
      "failed",
      "a model whose hub answers with an error",
      { stored: undefined, storedBytes: 0, memory: { failure } },
    ],
    [
      "failed",
      "a model whose download was cut, until the next try",
      { stored: undefined, storedBytes: 1, memory: { failure } },
    ],
    [
      "downloading",
      "a model that is tried again",
      {
        stored: undefined,
        storedBytes: 0,
        memory: { failure },
        job: { step: "resolve", state: running },
      },
    ],
    ["downloading", "a model with incomplete files", { stored: undefined, storedBytes: 1 }],
    [
      "downloading",
      "a model that is being resolved",
      { stored: undefined, storedBytes: 0, job: { step: "resolve", state: running } },
    ],
    [
      "absent",
      "a model whose job has failed",
      {
        stored: undefined,
        storedBytes: 0,
        job: { step: "download", state: { type: "failed", error: "" } },
      },
    ],
  ])("is `%s` for %s", (phase, _, more) => {
    expect(status(more).phase).toBe(phase);
  });
});

describe("the condition Ready of a Model", () => {
  const resolve = {
    operations: [{ type: "resolveSource", target: "", cause: "" }],
    blockedBy: null,
  } as const;
  test.each<[string, More]>([
    ["False Deleting: being deleted", { deleted: true, memory: { stalled } }],
    ["False SecretNotFound: it is not there", { refused, memory: { stalled } }],
    ["False SecretNotFound: it is not there", { refused }],
    ["False SourceNotFound: there is none", { memory: { stalled, failure } }],
    ["False SourceUnreachable: no answer", { memory: { failure } }],
    ["Unknown AssistantUnreachable: it does not answer", { spec: wanted, assistant: away }],
    [
      "True OnDisk: the model is on the disk (2 KiB), and not in memory, as the spec requests",
      { assistant: away },
    ],
    [
      "False ResolvingSource: resolving the source",
      { plan: resolve, job: { step: "resolve", state: running } },
    ],
    ["False ResolvingSource: resolving the source", { job: { step: "resolve", state: running } }],
    ["False Stopping: being unloaded from memory", { assistant: known(resident) }],
    [
      "True OnDisk: the model is on the disk (2 KiB), and not in memory, as the spec requests",
      { assistant: known({ ...resident, pinned: false }) },
    ],
    [
      "True OnDisk: the model is on the disk (2 KiB), and not in memory, as the spec requests",
      { assistant: known({ ...resident, state: "unloaded" }) },
    ],
    [
      "False WaitingForMemory: waits until b left",
      { spec: wanted, plan: blocked, assistant: known(failedModel) },
    ],
    ["False LoadFailed: the engine ended", { spec: wanted, assistant: known(failedModel) }],
    ["False Loading: being loaded into memory", { spec: wanted }],
    [
      "False Loading: being loaded into memory",
      { spec: wanted, assistant: known({ ...resident, path: "/other" }) },
    ],
  ])("is described by status, reason and message: %s", (expected, more) => {
    expect(condition(more, "Ready")).toBe(expected);
    // Progressing is False exactly when the Model is ready or Berth has given up on it.
    const isDone =
      expected.startsWith("True") ||
      more.refused !== undefined ||
      more.memory?.stalled !== undefined;
    expect(condition(more, "Progressing")?.split(" ")[0]).toBe(isDone ? "False" : "True");
  });
});

describe("the condition Downloaded of a Model", () => {
  const half = { stored: undefined, storedBytes: 500 };
  test.each<[string, More]>([
    [
      "True Verified: the file exists; there is no digest to compare it with",
      { stored: { ...stored, files: [{ name: "x", sizeBytes: 1, sha256: null }] } },
    ],
    ["False SecretNotFound: it is not there", { ...half, refused, memory: { failure } }],
    ["False SourceNotFound: there is none", { ...half, memory: { stalled, failure } }],
    ["False SourceUnreachable: no answer", { ...half, memory: { failure } }],
    ["False ResolvingSource: resolving the source", { ...half, memory: { pin: null } }],
    [
      "False ResolvingSource: resolving the source",
      { ...half, memory: { pin: { inputs: "older", model: pinned } } },
    ],
    [
      "False ResolvingSource: resolving the source",
      { ...half, job: { step: "resolve", state: running } },
    ],
    [
      "False WaitingForDownload: waiting for other downloads",
      { ...half, job: { step: "download", state: { type: "waiting" } } },
    ],
    [
      "False Downloading: 25 % of 2 KiB downloaded",
      { ...half, job: { step: "download", state: running } },
    ],
    [
      "False Verifying: all files are on the disk; comparing their digests",
      {
        ...half,
        job: {
          step: "download",
          state: { ...running, progress: { step: "verifying", doneBytes: 1, totalBytes: 2 } },
        },
      },
    ],
  ])("is described by status, reason and message: %s", (expected, more) => {
    expect(condition(more, "Downloaded")).toBe(expected);
  });

  test.each([null, 0])("of a file with the size %s shows the downloaded bytes", (sizeBytes) => {
    const [file] = pinned.files;
    if (!file) throw new Error("it has a file");
    const model = { ...pinned, files: [{ ...file, sizeBytes }] };
    const { inputs } = desiredModel(resource());
    const more = { ...half, memory: { pin: { inputs, model } } };
    expect(condition(more, "Downloaded")).toBe("False Downloading: 500 B downloaded");
    expect(status(more).sizeBytes).toBe(sizeBytes);
  });

  test("ignores files of an older source", () => {
    const more = { ...half, storedBytes: 0, memory: { pin: { inputs: "older", model: pinned } } };
    expect(status(more)).toMatchObject({ commit: null, files: [], sizeBytes: null });
  });
});

describe("the condition Loaded of a Model", () => {
  test.each<[string, More]>([
    ["Unknown AssistantUnreachable: it does not answer", { assistant: away }],
    ["False NotWanted: the spec sets running: false", { assistant: known(resident) }],
    ["False NotWanted: the spec sets running: false", {}],
    ["False LoadFailed: the engine ended", { spec: wanted, assistant: known(failedModel) }],
  ])("is described by status, reason and message: %s", (expected, more) => {
    expect(condition(more, "Loaded")).toBe(expected);
  });
});

test("the message of a failure has the time of the next attempt, and that of a stalled Model has no such time", () => {
  expect(status({ memory: { failure } }).nextRetryAt).toBe("2030-01-02T00:00:00.000Z");
  expect(condition({ memory: { stalled } }, "Stalled")).toBe("True SourceNotFound: there is none");
  expect(condition({ memory: { stalled } }, "Progressing")).toBe(
    "False SourceNotFound: there is none",
  );
  expect(condition({ refused }, "Accepted")).toBe("False SecretNotFound: it is not there");
});
