import { describe, expect, it } from "vitest";
import { buildCompensation } from "../../../../../src/assistant/agent/calls/compensation.ts";
import type { UndoExpression } from "../../../../../src/assistant/agent/tool-manifest.ts";

function undo(map: Record<string, UndoExpression>) {
  return { tool: "back", map: new Map(Object.entries(map)) };
}

describe("a compensation", () => {
  it("is made of the input and the result", () => {
    const declared = undo({
      id: { from: "result", fields: ["note", "id"] },
      title: { from: "input", fields: ["title"] },
    });
    const made = buildCompensation(declared, { title: "old" }, { note: { id: "n1", x: [1] } });
    expect(made).toEqual({
      tool: "back",
      args: { id: "n1", title: "old" },
      argsText: '{"id":"n1","title":"old"}',
    });
  });

  it("keeps null, which is a value", () => {
    const declared = undo({ id: { from: "result", fields: ["id"] } });
    expect(buildCompensation(declared, {}, { id: null })).toMatchObject({ args: { id: null } });
  });

  it.each([
    ["a field that is missing", ["gone"], { id: 1 }],
    ["no structured result", ["id"], undefined],
    ["what every object has", ["constructor"], { id: 1 }],
    ["what every text has", ["id", "length"], { id: "abc" }],
    ["a step into null", ["id", "x"], { id: null }],
  ])("cannot be made of %s", (_, fields, result) => {
    const made = buildCompensation(undo({ id: { from: "result", fields } }), {}, result);
    expect(made).toBe(`the call has no $result.${fields.join(".")}`);
  });

  it("is not made of a number that may be another one", () => {
    const declared = undo({ id: { from: "result", fields: ["id"] } });
    expect(buildCompensation(declared, {}, { id: 2 ** 53 })).toContain("do not agree");
    expect(buildCompensation(declared, {}, { id: [1, { a: 1e300 }] })).toContain("do not agree");
  });
});
