import { describe, expect, test } from "vitest";
import type { AssistantModel } from "../../../../src/controller/models/assistant/port.ts";
import type { DesiredModel } from "../../../../src/controller/models/desired-model.ts";
import {
  isLoadedAsWanted,
  type ObservedModel,
  planModel,
} from "../../../../src/controller/models/plan-model.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";

const pinned = createResolvedModel("org/x", { commit: "c".repeat(40), bytes: 1, memoryBytes: 1 });
const stored = { path: "/models/x.gguf", files: [] };
const facts = {
  architecture: "llama",
  name: null,
  parameters: null,
  quantization: null,
  contextTokens: 4_096,
  kind: "chat",
  memoryBytes: { wanted: 2, least: 1 },
} as const;

const desired: DesiredModel = {
  name: "x",
  generation: 1,
  request: {
    source: "org/x",
    file: undefined,
    quantization: undefined,
    revision: undefined,
    sha256: undefined,
  },
  inputs: "now",
  running: true,
  contextTokens: undefined,
  sequences: undefined,
  chatTemplate: undefined,
  deterministic: undefined,
  gpu: undefined,
  startedAt: null,
  retriedAt: null,
  createdAt: "",
};
const resident: AssistantModel = {
  id: "x",
  aliases: [],
  path: stored.path,
  sizeBytes: 1,
  state: "resident",
  pinned: true,
  memoryBytes: 1,
  wanted: { contextTokens: null, sequences: null, deterministic: null },
  contextTokens: 4_096,
  sequences: 8,
  loadedAt: "2030-01-01T00:00:00.000Z",
  error: null,
  recovering: false,
};
const failed = { ...resident, state: "failed", memoryBytes: null } as const;
const fits = { type: "fits", bytesMax: 9 } as const;
const refused = { type: "refused", message: "5 B are missing" } as const;

type Sight = Extract<ObservedModel["assistant"], { reachable: true }>;
const observeAssistant = (
  model: AssistantModel | undefined,
  verdict: Sight["verdict"] = fits,
): ObservedModel["assistant"] => ({ reachable: true, model, namesOfOthers: [], verdict });
const away = { reachable: false, message: "it does not answer" } as const;

const plan = (observed: Partial<ObservedModel>, wanted: Partial<DesiredModel> = {}) => {
  const { operations, blockedBy } = planModel(
    { ...desired, ...wanted },
    {
      pin: { inputs: "now", model: pinned },
      isPinStale: false,
      stored,
      replaced: undefined,
      storedBytes: 1,
      isVerifyDue: false,
      facts,
      assistant: observeAssistant(resident),
      ...observed,
    },
  );
  return { steps: operations.map(({ type, cause }) => [type, cause]), blockedBy };
};
const nothing = { steps: [], blockedBy: null };
const stopped = { running: false };

describe("the files of a model in a plan", () => {
  test.each<[string, Partial<ObservedModel>, readonly (readonly string[])[]]>([
    [
      "of an unresolved source",
      { pin: null, stored: undefined, storedBytes: 0 },
      [
        ["resolveSource", "the source is not resolved"],
        ["downloadFiles", "the files are not on the disk"],
      ],
    ],
    [
      "of a source that was resolved for an older spec",
      { pin: { inputs: "before", model: pinned } },
      [
        ["resolveSource", "the source is not resolved"],
        ["downloadFiles", "the files are not on the disk"],
      ],
    ],
    ["that are incomplete", { stored: undefined }, [["downloadFiles", "the files are incomplete"]]],
    [
      "that are missing",
      { stored: undefined, storedBytes: 0 },
      [["downloadFiles", "the files are not on the disk"]],
    ],
    [
      "to be resolved and verified again",
      { isPinStale: true, isVerifyDue: true },
      [
        ["resolveSource", "a user requested it"],
        ["verifyFiles", "a user requested it"],
      ],
    ],
    ["to be verified", { isVerifyDue: true }, [["verifyFiles", "a user requested it"]]],
    ["in the desired state", {}, []],
  ])("cause the expected steps if they are files %s", (_, observed, steps) => {
    const files = { assistant: observeAssistant(undefined), ...observed };
    expect(plan(files, stopped)).toEqual({ steps, blockedBy: null });
  });

  test("are named by the first file and the number of further files", () => {
    const [first] = pinned.files;
    if (!first) throw new Error("it has a file");
    const part = (name: string) => ({ ...first, name });
    const target = (names: readonly string[]) =>
      planModel(desired, {
        pin: { inputs: "now", model: { ...pinned, files: names.map(part) } },
        isPinStale: false,
        replaced: undefined,
        stored: undefined,
        storedBytes: 0,
        isVerifyDue: false,
        facts: null,
        assistant: away,
      }).operations[0]?.target;
    expect(target(["a.gguf"])).toBe("a.gguf");
    expect(target(["a.gguf", "b.gguf", "c.gguf"])).toBe("a.gguf and 2 more");
  });
});

describe("the memory steps of a plan", () => {
  test("are none if the model is in its desired state, loaded or stopped", () => {
    expect(plan({})).toEqual(nothing);
    expect(plan({ assistant: observeAssistant(undefined) }, stopped)).toEqual(nothing);
  });

  test.each<[string, AssistantModel | undefined, Partial<DesiredModel>]>([
    ["it is not in memory", undefined, {}],
    ["it is not in memory", { ...resident, pinned: false }, {}],
    ["it is not in memory", { ...resident, state: "unloaded" }, {}],
    ["another file is in memory", { ...resident, path: "/models/old.gguf" }, {}],
    ["contextSize has changed", resident, { contextTokens: 512 }],
    [
      "contextSize has changed",
      { ...resident, wanted: { contextTokens: 512, sequences: null, deterministic: null } },
      {},
    ],
    ["parallel has changed", resident, { sequences: 2 }],
    ["chatTemplate has changed", resident, { chatTemplate: "{{ messages }}" }],
    [
      "chatTemplate has changed",
      {
        ...resident,
        wanted: {
          contextTokens: null,
          sequences: null,
          deterministic: null,
          chatTemplate: "/srv/chat.jinja",
        },
      },
      {},
    ],
    [
      "parallel has changed",
      { ...resident, wanted: { contextTokens: null, sequences: 2, deterministic: null } },
      {},
    ],
    ["deterministic has changed", resident, { deterministic: true }],
    [
      "deterministic has changed",
      { ...resident, wanted: { contextTokens: null, sequences: null, deterministic: true } },
      {},
    ],
    ["the last load failed", failed, {}],
  ])("load a model because %s", (cause, model, wanted) => {
    expect(plan({ assistant: observeAssistant(model) }, wanted)).toEqual({
      steps: [["loadModel", cause]],
      blockedBy: null,
    });
    expect(isLoadedAsWanted({ ...desired, ...wanted }, stored, model)).toBe(false);
  });

  test("leave the reload of a crashed model to the assistant, and the model is not ready meanwhile", () => {
    const recovering = { ...failed, recovering: true };
    expect(plan({ assistant: observeAssistant(recovering) })).toEqual(nothing);
    expect(isLoadedAsWanted(desired, stored, recovering)).toBe(false);
    expect(isLoadedAsWanted(desired, stored, resident)).toBe(true);
    expect(isLoadedAsWanted(desired, undefined, resident)).toBe(false);
  });

  test("inspect the memory use before the load", () => {
    const asked = ["inspectFile", "the memory use of the file is not known"];
    const load = ["loadModel", "it is not in memory"];
    expect(plan({ facts: null, assistant: observeAssistant(undefined) }).steps).toEqual([
      asked,
      load,
    ]);
    expect(plan({ stored: undefined, assistant: observeAssistant(undefined) }).steps).toEqual([
      ["downloadFiles", "the files are incomplete"],
      asked,
      load,
    ]);
  });

  test("unload a pinned model that should not run, whatever its state, but no model that is not pinned", () => {
    const steps = [["unloadModel", "the spec sets running: false"]];
    for (const model of [resident, failed])
      expect(plan({ assistant: observeAssistant(model) }, stopped)).toEqual({
        steps,
        blockedBy: null,
      });
    const theirs = { ...resident, pinned: false };
    expect(plan({ assistant: observeAssistant(theirs) }, stopped)).toEqual(nothing);
  });

  test("unload a model if another one has priority for the memory, and do not load it again while its file is complete", () => {
    const blockedBy = { reason: "InsufficientMemory", message: "5 B are missing" };
    const steps = [["unloadModel", "another model has priority for the memory"]];
    expect(plan({ assistant: observeAssistant(resident, refused) })).toEqual({ steps, blockedBy });
    expect(plan({ assistant: observeAssistant(failed, refused) })).toEqual({ steps, blockedBy });
    const going = { ...resident, state: "unloading" } as const;
    expect(plan({ assistant: observeAssistant(going, refused) })).toEqual({ steps: [], blockedBy });
    expect(plan({ assistant: observeAssistant(undefined, refused) })).toEqual({
      steps: [],
      blockedBy,
    });
    const coming = plan({ stored: undefined, assistant: observeAssistant(resident, refused) });
    expect(coming.steps.map(([type]) => type)).toEqual([
      "downloadFiles",
      "inspectFile",
      "loadModel",
    ]);
    expect(coming.blockedBy).toBeNull();
  });

  test("are none for a model that waits for memory; the plan names the models that must be unloaded first", () => {
    const waits = { type: "waits", for: ["a", "b"] } as const;
    expect(plan({ assistant: observeAssistant(undefined, waits) })).toEqual({
      steps: [],
      blockedBy: {
        reason: "WaitingForMemory",
        message: "waits until these models are unloaded: a, b",
      },
    });
    expect(
      plan({ stored: undefined, assistant: observeAssistant(undefined, waits) }).blockedBy,
    ).toBeNull();
  });

  test("neither load nor unload a model while the assistant is unreachable", () => {
    expect(plan({ assistant: away })).toEqual({
      steps: [],
      blockedBy: { reason: "AssistantUnreachable", message: "it does not answer" },
    });
    expect(plan({ assistant: away }, stopped)).toEqual(nothing);
  });
});
