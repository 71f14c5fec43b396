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
  wanted: { contextTokens: null, sequences: null },
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
const sight = (
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
      assistant: sight(resident),
      ...observed,
    },
  );
  return { steps: operations.map(({ type, cause }) => [type, cause]), blockedBy };
};
const nothing = { steps: [], blockedBy: null };
const stopped = { running: false };

describe("the files", () => {
  test.each<[string, Partial<ObservedModel>, readonly (readonly string[])[]]>([
    [
      "nothing known",
      { pin: null, stored: undefined, storedBytes: 0 },
      [
        ["resolveSource", "the source is not resolved"],
        ["downloadFiles", "they are not on the disk"],
      ],
    ],
    [
      "known of an older spec, whose files are there",
      { pin: { inputs: "before", model: pinned } },
      [
        ["resolveSource", "the source is not resolved"],
        ["downloadFiles", "they are not on the disk"],
      ],
    ],
    ["there in part", { stored: undefined }, [["downloadFiles", "they are incomplete"]]],
    [
      "not there at all",
      { stored: undefined, storedBytes: 0 },
      [["downloadFiles", "they are not on the disk"]],
    ],
    [
      "to be looked at anew",
      { isPinStale: true, isVerifyDue: true },
      [
        ["resolveSource", "a user requested it"],
        ["verifyFiles", "a user requested it"],
      ],
    ],
    ["to be compared", { isVerifyDue: true }, [["verifyFiles", "a user requested it"]]],
    ["as they should be", {}, []],
  ])("%s", (_, observed, steps) => {
    const files = { assistant: sight(undefined), ...observed };
    expect(plan(files, stopped)).toEqual({ steps, blockedBy: null });
  });

  test("are named by the first, and how many more there are", () => {
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

describe("memory", () => {
  test("one that is there as wanted stays", () => {
    expect(plan({})).toEqual(nothing);
    expect(plan({ assistant: sight(undefined) }, stopped)).toEqual(nothing);
  });

  test.each<[string, AssistantModel | undefined, Partial<DesiredModel>]>([
    ["it is not in memory", undefined, {}],
    ["it is not in memory", { ...resident, pinned: false }, {}],
    ["it is not in memory", { ...resident, state: "unloaded" }, {}],
    ["another file is in memory", { ...resident, path: "/models/old.gguf" }, {}],
    ["contextSize has changed", resident, { contextTokens: 512 }],
    [
      "contextSize has changed",
      { ...resident, wanted: { contextTokens: 512, sequences: null } },
      {},
    ],
    ["parallel has changed", resident, { sequences: 2 }],
    ["parallel has changed", { ...resident, wanted: { contextTokens: null, sequences: 2 } }, {}],
    ["the last load failed", failed, {}],
  ])("loaded, because %s", (cause, model, wanted) => {
    expect(plan({ assistant: sight(model) }, wanted)).toEqual({
      steps: [["loadModel", cause]],
      blockedBy: null,
    });
    expect(isLoadedAsWanted({ ...desired, ...wanted }, stored, model)).toBe(false);
  });

  test("one that crashed is the assistant's to bring back, and does not answer meanwhile", () => {
    const recovering = { ...failed, recovering: true };
    expect(plan({ assistant: sight(recovering) })).toEqual(nothing);
    expect(isLoadedAsWanted(desired, stored, recovering)).toBe(false);
    expect(isLoadedAsWanted(desired, stored, resident)).toBe(true);
    expect(isLoadedAsWanted(desired, undefined, resident)).toBe(false);
  });

  test("what it takes is looked up before it is loaded", () => {
    const asked = ["inspectFile", "its memory use is not known"];
    const load = ["loadModel", "it is not in memory"];
    expect(plan({ facts: null, assistant: sight(undefined) }).steps).toEqual([asked, load]);
    expect(plan({ stored: undefined, assistant: sight(undefined) }).steps).toEqual([
      ["downloadFiles", "they are incomplete"],
      asked,
      load,
    ]);
  });

  test("one that is not wanted goes, whatever state it is in; what others keep does not", () => {
    const steps = [["unloadModel", "the spec sets running: false"]];
    for (const model of [resident, failed])
      expect(plan({ assistant: sight(model) }, stopped)).toEqual({ steps, blockedBy: null });
    const theirs = { ...resident, pinned: false };
    expect(plan({ assistant: sight(theirs) }, stopped)).toEqual(nothing);
  });

  test("one that is refused goes, and its load waits; but not before its new file is there", () => {
    const blockedBy = { reason: "InsufficientMemory", message: "5 B are missing" };
    const steps = [["unloadModel", "another model has priority for the memory"]];
    expect(plan({ assistant: sight(resident, refused) })).toEqual({ steps, blockedBy });
    expect(plan({ assistant: sight(failed, refused) })).toEqual({ steps, blockedBy });
    const going = { ...resident, state: "unloading" } as const;
    expect(plan({ assistant: sight(going, refused) })).toEqual({ steps: [], blockedBy });
    expect(plan({ assistant: sight(undefined, refused) })).toEqual({ steps: [], blockedBy });
    const coming = plan({ stored: undefined, assistant: sight(resident, refused) });
    expect(coming.steps.map(([type]) => type)).toEqual([
      "downloadFiles",
      "inspectFile",
      "loadModel",
    ]);
    expect(coming.blockedBy).toBeNull();
  });

  test("one that waits for others says for whom, once its file is there", () => {
    const waits = { type: "waits", for: ["a", "b"] } as const;
    expect(plan({ assistant: sight(undefined, waits) })).toEqual({
      steps: [],
      blockedBy: { reason: "WaitingForMemory", message: "waits until a, b is unloaded" },
    });
    expect(plan({ stored: undefined, assistant: sight(undefined, waits) }).blockedBy).toBeNull();
  });

  test("out of sight, nothing is loaded and nothing unloaded", () => {
    expect(plan({ assistant: away })).toEqual({
      steps: [],
      blockedBy: { reason: "AssistantUnreachable", message: "it does not answer" },
    });
    expect(plan({ assistant: away }, stopped)).toEqual(nothing);
  });
});
