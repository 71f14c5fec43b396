import fc from "fast-check";
import { expect, it } from "vitest";
import {
  checkBounds,
  checkNesting,
  MessageBoundsError,
} from "../../../../../src/assistant/agent/mcp/message-bounds.ts";

const many = (count: number) => Array.from({ length: count }, () => 0);

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = [value];
  return value;
}

it("lets a large structured result through, and nothing else that is large", () => {
  const structured = { rows: many(500_000) };
  expect(() => checkBounds({ result: { structuredContent: structured } }, 10)).not.toThrow();
  for (const message of [
    { result: { content: many(11) } },
    { result: { content: [{ annotations: many(60_000) }] } },
    { result: { tools: many(60_000) } },
    { params: { structuredContent: many(60_000) } },
    { error: { data: many(60_000) } },
    { result: { structuredContent: {}, other: many(60_000) } },
  ]) {
    expect(() => checkBounds(message, 10)).toThrow(MessageBoundsError);
  }
});

it("goes as deep as it allows, anywhere", () => {
  expect(() => checkBounds({ result: { structuredContent: nested(90) } }, 10)).not.toThrow();
  for (const message of [
    { result: { structuredContent: nested(110) } },
    { params: nested(200_000) },
  ] as object[]) {
    expect(() => checkBounds(message, 10)).toThrow("nested");
  }
});

it("takes a null for what it is", () => {
  expect(() => checkBounds({ result: null }, 10)).not.toThrow();
  expect(() =>
    checkBounds({ result: { structuredContent: null, content: null } }, 1),
  ).not.toThrow();
});

const refuses = (check: () => void) => {
  try {
    check();
    return false;
  } catch (error) {
    expect(error).toBeInstanceOf(MessageBoundsError);
    return true;
  }
};

it("finds the same depth in the text of a long line as in its values, whatever its strings have", () => {
  const texts = fc.array(fc.string({ unit: fc.constantFrom("[", "{", "]", '"', "\\", "é", "a") }));
  fc.assert(
    fc.property(texts, fc.integer({ min: 90, max: 110 }), (strings, depth) => {
      const message = { pad: "[".repeat(70_000), strings, deep: nested(depth) };
      const line = JSON.stringify(message);
      expect(refuses(() => checkNesting(line))).toBe(refuses(() => checkBounds(message, 10)));
    }),
  );
  expect(refuses(() => checkNesting(`${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`))).toBe(
    true,
  );
  // What is no JSON at all is for its reader to refuse.
  expect(refuses(() => checkNesting(`"${"\\\\".repeat(70_000)}[`))).toBe(false);
});
