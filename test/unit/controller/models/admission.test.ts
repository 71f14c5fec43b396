import { describe, expect, test } from "vitest";
import { admit, type Candidate } from "../../../../src/controller/models/admission.ts";

const model = (name: string, fields: Partial<Candidate> = {}): Candidate => ({
  name,
  startedAt: null,
  createdAt: "2030-01-01T00:00:00.000Z",
  residentBytes: null,
  leastBytes: 600,
  ...fields,
});
const memory = { bytesMax: 1_000, otherBytes: 0 };
const at = (second: number) => `2030-01-01T00:00:0${second}.000Z`;

describe("who may be in memory", () => {
  test("one that fits beside the others", () => {
    const both = [model("a", { leastBytes: 400 }), model("b")];
    // Each leaves the other what it needs at least.
    expect(admit("a", both, memory)).toEqual({ type: "fits", bytesMax: 400 });
    expect(admit("b", both, memory)).toEqual({ type: "fits", bytesMax: 600 });
  });

  test("who is there stays, and the message says how much is missing", () => {
    const both = [model("a"), model("b", { residentBytes: 700 })];
    expect(admit("b", both, memory)).toMatchObject({ type: "fits" });
    const verdict = admit("a", both, memory);
    expect(verdict.type).toBe("refused");
    expect(verdict).toMatchObject({ message: expect.stringMatching(/300 B of memory|300 B/) });
    expect(verdict).toMatchObject({ message: expect.stringContaining("berth models stop b") });
  });

  test("who was started last comes first, once the other has left", () => {
    const both = [model("a", { startedAt: at(5) }), model("b", { residentBytes: 700 })];
    expect(admit("a", both, memory)).toEqual({ type: "waits", for: ["b"] });
    expect(admit("b", both, memory).type).toBe("refused");
    const later = [model("a", { startedAt: at(5) }), model("b")];
    expect(admit("a", later, memory)).toMatchObject({ type: "fits" });
  });

  test("nobody waits for memory that is free already", () => {
    const three = [
      model("big", { residentBytes: 500, startedAt: at(1), leastBytes: 500 }),
      model("small", { leastBytes: 100, startedAt: at(9) }),
      model("mid", { residentBytes: 300, leastBytes: 300 }),
    ];
    expect(admit("small", three, memory)).toMatchObject({ type: "fits" });
  });

  test("one that is too large even alone pushes nobody out", () => {
    const both = [
      model("huge", { leastBytes: 2_000, startedAt: at(9) }),
      model("b", { residentBytes: 700 }),
    ];
    expect(admit("b", both, memory)).toMatchObject({ type: "fits" });
    expect(admit("huge", both, memory)).toMatchObject({
      type: "refused",
      message: expect.stringContaining("--assistant-memory"),
    });
  });

  test("what others keep in memory is not to be had", () => {
    const verdict = admit("a", [model("a")], { bytesMax: 1_000, otherBytes: 500 });
    expect(verdict).toMatchObject({ type: "refused", message: expect.stringContaining("500 B") });
  });

  test("all of those who are let in fit together, whatever the order that they are given in", () => {
    const all = [
      model("a", { leastBytes: 500, startedAt: at(1) }),
      model("b", { leastBytes: 500, startedAt: at(2) }),
      model("c", { residentBytes: 400, leastBytes: 300 }),
      model("d", { residentBytes: 600, leastBytes: 300, startedAt: at(3) }),
    ];
    for (const order of [all, all.toReversed()]) {
      const kept = all.filter(({ name }) => admit(name, order, memory).type !== "refused");
      expect(kept.map(({ name }) => name)).toEqual(["c", "d"]);
    }
  });
});
