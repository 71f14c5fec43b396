import fc from "fast-check";
import { expect, it } from "vitest";
import {
  checkBounds,
  checkNesting,
  MessageBoundsError,
} from "../../../../../src/assistant/agent/mcp/message-bounds.ts";

const zeros = (count: number) => Array.from({ length: count }, () => 0);

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = [value];
  return value;
}

it("the check of an MCP message accepts a large structured result, and rejects other large values", () => {
  const structured = { rows: zeros(500_000) };
  expect(() => checkBounds({ result: { structuredContent: structured } }, 10)).not.toThrow();
  for (const message of [
    { result: { content: zeros(11) } },
    { result: { content: [{ annotations: zeros(60_000) }] } },
    { result: { tools: zeros(60_000) } },
    { params: { structuredContent: zeros(60_000) } },
    { error: { data: zeros(60_000) } },
    { result: { structuredContent: {}, other: zeros(60_000) } },
  ]) {
    expect(() => checkBounds(message, 10)).toThrow(MessageBoundsError);
  }
});

it("the check of an MCP message accepts the maximum depth in any part of a message", () => {
  expect(() => checkBounds({ result: { structuredContent: nested(90) } }, 10)).not.toThrow();
  for (const message of [
    { result: { structuredContent: nested(110) } },
    { params: nested(200_000) },
  ] as object[]) {
    expect(() => checkBounds(message, 10)).toThrow("nested");
  }
});

it("the check of an MCP message accepts null values", () => {
  expect(() => checkBounds({ result: null }, 10)).not.toThrow();
  expect(() =>
    checkBounds({ result: { structuredContent: null, content: null } }, 1),
  ).not.toThrow();
});

const isRefused = (check: () => void) => {
  try {
    check();
    return false;
  } catch (error) {
    expect(error).toBeInstanceOf(MessageBoundsError);
    return true;
  }
};

it("the check of an MCP message computes the same depth from the text of a long line as from its parsed value", () => {
  const texts = fc.array(fc.string({ unit: fc.constantFrom("[", "{", "]", '"', "\\", "é", "a") }));
  fc.assert(
    fc.property(texts, fc.integer({ min: 90, max: 110 }), (strings, depth) => {
      const message = { pad: "[".repeat(70_000), strings, deep: nested(depth) };
      const line = JSON.stringify(message);
      expect(isRefused(() => checkNesting(line))).toBe(isRefused(() => checkBounds(message, 10)));
    }),
  );
  expect(isRefused(() => checkNesting(`${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`))).toBe(
    true,
  );
  // Invalid JSON is rejected later by the parser.
  expect(isRefused(() => checkNesting(`"${"\\\\".repeat(70_000)}[`))).toBe(false);
});
