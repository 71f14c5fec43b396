import { expect, test } from "vitest";
import type { AssistantModel } from "../../../../src/controller/models/assistant/port.ts";
import { desiredModel } from "../../../../src/controller/models/desired-model.ts";
import { computeFactsKey, observeModel } from "../../../../src/controller/models/observe-model.ts";
import type { ModelSpec } from "../../../../src/resources/model-spec.ts";
import {
  emptyModelReconcileState,
  type ModelStatus,
} from "../../../../src/resources/model-status.ts";
import type { Resource } from "../../../../src/resources/resource.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";
import { assistantModel } from "../../../support/model-fixtures.ts";

const pin = createResolvedModel("org/x", { commit: "c".repeat(40), bytes: 1, memoryBytes: 1 });
const stored = { path: "/models/x.gguf", files: [] };
const factsOf = (least: number) =>
  ({
    architecture: "llama",
    name: null,
    parameters: null,
    quantization: null,
    contextTokens: 4_096,
    kind: "chat",
    memoryBytes: { wanted: 2 * least, least },
  }) as const;

const model = (
  name: string,
  least: number,
  more: { spec?: Partial<ModelSpec>; deletionTimestamp?: string } = {},
): Resource<"Model"> => ({
  apiVersion: "berth.dev/v1",
  kind: "Model",
  metadata: {
    name,
    uid: name,
    labels: {},
    annotations: {},
    generation: 1,
    resourceVersion: 1,
    // The model "one" is younger than the model "two", so that "two" has priority for the memory.
    creationTimestamp: `2030-01-01T00:00:00.00${name === "one" ? 1 : 0}Z`,
    deletionTimestamp: more.deletionTimestamp ?? null,
    finalizers: [],
    owners: {},
    managers: {},
  },
  spec: { source: "org/x", running: true, ...more.spec },
  status: {
    phase: "ready",
    observedGeneration: 1,
    conditions: [],
    commit: null,
    files: [],
    sizeBytes: null,
    downloadedBytes: 0,
    facts: factsOf(least),
    loaded: null,
    nextRetryAt: null,
    memory: emptyModelReconcileState,
  } satisfies ModelStatus,
});

/**
 * Returns the decision for the Model "one" of 500 bytes, if all models together may use 1000 bytes. `others` are the
 * other Models, and `loaded` are the models in memory.
 */
async function observed(
  others: readonly Resource<"Model">[],
  loaded: readonly AssistantModel[],
  factsOfPath = computeFactsKey(stored.path, desiredModel(model("one", 500))),
) {
  const one = model("one", 500);
  const desired = desiredModel(one);
  return observeModel({
    desired,
    memory: {
      ...emptyModelReconcileState,
      pin: { inputs: desired.inputs, model: pin },
      factsOf: factsOfPath,
    },
    facts: factsOf(500),
    files: { find: async () => stored, storedBytes: async () => 1 },
    observation: {
      reachable: true,
      state: {
        version: "1",
        pid: 1,
        engine: "stub",
        url: "",
        memoryBytesMax: 1_000,
        models: loaded,
      },
    },
    all: [one, ...others],
  });
}
const verdict = async (...args: Parameters<typeof observed>) => {
  const { assistant } = await observed(...args);
  return assistant.reachable ? assistant.verdict.type : assistant;
};

test("the known memory use of a model applies only to the same file and settings", async () => {
  expect((await observed([], [])).facts).toEqual(factsOf(500));
  expect((await observed([], [], "/models/another.gguf")).facts).toBeNull();
  const smaller = desiredModel(model("one", 500, { spec: { contextSize: 512 } }));
  expect((await observed([], [], computeFactsKey(stored.path, smaller))).facts).toBeNull();
});

test("an older model that should run has priority for the memory, unless it is being deleted or stopped", async () => {
  expect(await verdict([model("two", 501)], [])).toBe("refused");
  expect(await verdict([model("two", 500)], [])).toBe("fits");
  const deletionTimestamp = "2030-01-01T00:00:00.000Z";
  expect(await verdict([model("two", 501, { deletionTimestamp })], [])).toBe("fits");
  expect(await verdict([model("two", 501, { spec: { running: false } })], [])).toBe("fits");
});

test("the memory of a model that is being loaded, and of a pinned model without a Model resource, is not free", async () => {
  const coming = assistantModel("two", { state: "loading", pinned: true });
  const two = model("two", 501);
  const creationTimestamp = "2031-01-01T00:00:00.000Z";
  const younger = { ...two, metadata: { ...two.metadata, creationTimestamp } };
  expect(await verdict([younger], [])).toBe("fits");
  // The younger model "two" keeps its memory while it is being loaded, although the older model "one" has priority.
  expect(await verdict([younger], [coming])).toBe("refused");
  const theirs = assistantModel("theirs", { state: "resident", memoryBytes: 501 });
  expect(await verdict([], [{ ...theirs, pinned: true }])).toBe("refused");
  expect(await verdict([], [theirs])).toBe("fits");
});
