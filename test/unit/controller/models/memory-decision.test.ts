import { describe, expect, test } from "vitest";
import {
  decideMemory,
  type MemoryCandidate,
} from "../../../../src/controller/models/memory-decision.ts";

const model = (name: string, fields: Partial<MemoryCandidate> = {}): MemoryCandidate => ({
  name,
  startedAt: null,
  createdAt: "2030-01-01T00:00:00.000Z",
  residentBytes: null,
  leastBytes: 600,
  ...fields,
});
const memory = { bytesMax: 1_000, otherBytes: 0 };
const at = (second: number) => `2030-01-01T00:00:0${second}.000Z`;

const message = (candidates: readonly MemoryCandidate[], otherBytes = 0) => {
  const verdict = decideMemory("a", candidates, { bytesMax: 1_000, otherBytes });
  return verdict.type === "refused" ? verdict.message : verdict.type;
};

describe("decideMemory", () => {
  test("admits a model that fits in addition to the others", () => {
    const both = [model("a", { leastBytes: 400 }), model("b")];
    // The two models share the memory: each may use all of it except the least amount that the other one needs.
    expect(decideMemory("a", both, memory)).toEqual({ type: "fits", bytesMax: 400 });
    expect(decideMemory("b", both, memory)).toEqual({ type: "fits", bytesMax: 600 });
  });

  test("keeps a loaded model, and reports how much is missing for another one", () => {
    const both = [model("a"), model("b", { residentBytes: 700 })];
    expect(decideMemory("b", both, memory)).toMatchObject({ type: "fits" });
    const verdict = decideMemory("a", both, memory);
    expect(verdict.type).toBe("refused");
    expect(verdict).toMatchObject({ message: expect.stringMatching(/300 B of memory|300 B/) });
    expect(verdict).toMatchObject({ message: expect.stringContaining("berth models stop b") });
  });

  test("makes the model that the user started last wait until a loaded model is unloaded, and then admits it", () => {
    const both = [model("a", { startedAt: at(5) }), model("b", { residentBytes: 700 })];
    expect(decideMemory("a", both, memory)).toEqual({ type: "waits", for: ["b"] });
    expect(decideMemory("b", both, memory).type).toBe("refused");
    const later = [model("a", { startedAt: at(5) }), model("b")];
    expect(decideMemory("a", later, memory)).toMatchObject({ type: "fits" });
  });

  test("admits a model at once if the free memory is enough for it", () => {
    const three = [
      model("big", { residentBytes: 500, startedAt: at(1), leastBytes: 500 }),
      model("small", { leastBytes: 100, startedAt: at(9) }),
      model("mid", { residentBytes: 300, leastBytes: 300 }),
    ];
    expect(decideMemory("small", three, memory)).toMatchObject({ type: "fits" });
  });

  test("does not evict a model for another one that is too large even alone", () => {
    const both = [
      model("huge", { leastBytes: 2_000, startedAt: at(9) }),
      model("b", { residentBytes: 700 }),
    ];
    expect(decideMemory("b", both, memory)).toMatchObject({ type: "fits" });
    expect(decideMemory("huge", both, memory)).toMatchObject({
      type: "refused",
      message: expect.stringContaining("--assistant-memory"),
    });
  });

  test("does not give a Model the memory of pinned models that have no Model resource", () => {
    const verdict = decideMemory("a", [model("a")], { bytesMax: 1_000, otherBytes: 500 });
    expect(verdict).toMatchObject({ type: "refused", message: expect.stringContaining("500 B") });
  });

  test("admits models that fit together, whatever their order", () => {
    const all = [
      model("a", { leastBytes: 500, startedAt: at(1) }),
      model("b", { leastBytes: 500, startedAt: at(2) }),
      model("c", { residentBytes: 400, leastBytes: 300 }),
      model("d", { residentBytes: 600, leastBytes: 300, startedAt: at(3) }),
    ];
    for (const order of [all, all.toReversed()]) {
      const kept = all.filter(({ name }) => decideMemory(name, order, memory).type !== "refused");
      expect(kept.map(({ name }) => name)).toEqual(["c", "d"]);
    }
  });

  test("makes a model wait only for models that are in memory", () => {
    const three = [
      model("a", { startedAt: at(9) }),
      model("b", { startedAt: at(8), leastBytes: 500 }),
      model("c", { residentBytes: 300, startedAt: at(7), leastBytes: 300 }),
    ];
    expect(decideMemory("a", three, memory)).toMatchObject({ type: "fits" });
    expect(decideMemory("a", [...three, model("d", { residentBytes: 200 })], memory)).toEqual({
      type: "waits",
      for: ["d"],
    });
  });

  test("counts the memory of pinned models without a Model resource as used when it decides whether a model must wait", () => {
    const both = [
      model("a", { startedAt: at(5), leastBytes: 500 }),
      model("b", { residentBytes: 450 }),
    ];
    expect(decideMemory("a", both, { bytesMax: 1_000, otherBytes: 60 })).toEqual({
      type: "waits",
      for: ["b"],
    });
  });

  test("does not wait for free memory while another model is being unloaded", () => {
    const three = [
      model("first", { residentBytes: 300, leastBytes: 300, startedAt: at(9) }),
      model("second", { leastBytes: 200, startedAt: at(8) }),
      model("third", { leastBytes: 500, startedAt: at(7) }),
      model("leaves", { residentBytes: 200, leastBytes: 200 }),
    ];
    expect(decideMemory("leaves", three, memory).type).toBe("refused");
    expect(decideMemory("second", three, memory)).toMatchObject({ type: "fits" });
    expect(decideMemory("third", three, memory)).toMatchObject({ type: "fits" });
    const tight = three.map((one) => (one.name === "third" ? { ...one, leastBytes: 501 } : one));
    expect(decideMemory("leaves", tight, memory).type).toBe("fits");
  });

  test("never makes a loaded model wait, and lets it use all memory that no other admitted model needs", () => {
    const both = [
      model("a", { residentBytes: 600, leastBytes: 100, startedAt: at(9) }),
      model("b", { residentBytes: 500, leastBytes: 100 }),
    ];
    expect(decideMemory("a", both, memory)).toEqual({ type: "fits", bytesMax: 1_000 });
    expect(decideMemory("b", both, memory).type).toBe("refused");
  });

  test.each<[string, Partial<MemoryCandidate>, Partial<MemoryCandidate>]>([
    ["the model that a user started", { startedAt: at(1) }, { residentBytes: 600 }],
    [
      "the model that was started last",
      { startedAt: at(2) },
      { startedAt: at(1), residentBytes: 600 },
    ],
    ["the loaded model", { residentBytes: 600 }, { createdAt: at(0) }],
    [
      "the loaded one of two models started at the same time",
      { startedAt: at(1), residentBytes: 600 },
      { startedAt: at(1) },
    ],
    ["the older model", { createdAt: at(0) }, { createdAt: at(1) }],
  ])("prefers %s", (_, first, second) => {
    const both = [model("z", first), model("a", second)];
    for (const order of [both, both.toReversed()]) {
      expect(decideMemory("z", order, memory).type).not.toBe("refused");
      expect(decideMemory("a", order, memory).type).toBe("refused");
    }
  });

  test("prefers the first by name of two models that are otherwise equal", () => {
    const both = [model("b"), model("a")];
    for (const order of [both, both.toReversed()]) {
      expect(decideMemory("a", order, memory).type).toBe("fits");
      expect(decideMemory("b", order, memory).type).toBe("refused");
    }
  });

  test("admits a model that needs exactly the available memory", () => {
    expect(decideMemory("a", [model("a", { leastBytes: 1_000 })], memory)).toEqual({
      type: "fits",
      bytesMax: 1_000,
    });
  });

  test("states how much memory is missing, which models to stop, and how to get priority", () => {
    expect(message([model("a", { leastBytes: 1_001 })])).toBe(
      "the model needs at least 1001 B of memory, but the limit for all models is 1000 B: 1 B are missing; set a smaller contextSize or parallel, or choose a smaller quantization, or give the assistant more with --assistant-memory",
    );
    const three = [
      model("a"),
      model("b", { residentBytes: 300 }),
      model("c", { residentBytes: 200 }),
    ];
    expect(message(three)).toBe(
      "the model needs at least 600 B of memory, and 500 B of 1000 B are free in addition to b, c: 100 B are missing; stop one of these models (berth models stop b), set a smaller contextSize or parallel, or choose a smaller quantization; berth models start a gives it priority over the others",
    );
    expect(message([model("a", { leastBytes: 1_000 })], 1_200)).toBe(
      "the model needs at least 1000 B of memory, and 0 B of 1000 B are free, 1.2 KiB are used by other models: 1000 B are missing; set a smaller contextSize or parallel, or choose a smaller quantization; berth models start a gives it priority over the others",
    );
  });
});
