import { describe, expect, it } from "vitest";
import { buildCompensation } from "../../../../../src/assistant/agent/calls/compensation.ts";
import type { UndoExpression } from "../../../../../src/assistant/agent/tool-manifest.ts";

function undo(map: Record<string, UndoExpression>) {
  return { tool: "back", map: new Map(Object.entries(map)) };
}

describe("building a compensation", () => {
  it("uses values from the arguments and from the result", () => {
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

  it("keeps null as a value", () => {
    const declared = undo({ id: { from: "result", fields: ["id"] } });
    expect(buildCompensation(declared, {}, { id: null })).toMatchObject({ args: { id: null } });
  });

  it.each([
    ["a missing field", ["gone"], { id: 1 }],
    ["no structured result", ["id"], undefined],
    ["an inherited property of objects", ["constructor"], { id: 1 }],
    ["a property of strings", ["id", "length"], { id: "abc" }],
    ["a field of null", ["id", "x"], { id: null }],
  ])("fails because of %s", (_, fields, result) => {
    const made = buildCompensation(undo({ id: { from: "result", fields } }), {}, result);
    expect(made).toBe(`the call has no $result.${fields.join(".")}`);
  });

  it("fails for a text with half of a surrogate pair", () => {
    const declared = undo({ id: { from: "result", fields: ["id"] } });
    expect(buildCompensation(declared, {}, { id: "n\ud83d" })).toContain("read differently");
  });

  it("fails for a number that may have lost precision", () => {
    const declared = undo({ id: { from: "result", fields: ["id"] } });
    expect(buildCompensation(declared, {}, { id: 2 ** 53 })).toContain("read differently");
    expect(buildCompensation(declared, {}, { id: [1, { a: 1e300 }] })).toContain(
      "read differently",
    );
  });
});
