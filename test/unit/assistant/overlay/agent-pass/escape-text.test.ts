import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CallDetail } from "../../../../../src/assistant/agent/port.ts";
import { describeArguments } from "../../../../../src/assistant/overlay/agent-pass/describe-arguments.ts";
import {
  escapeLine,
  escapeText,
  truncateBytes,
  truncateText,
} from "../../../../../src/assistant/overlay/agent-pass/escape-text.ts";
import { formatResult } from "../../../../../src/assistant/overlay/agent-pass/result-text.ts";

const base = { v: 1, message: "m", app_id: "a", tool: "t" } as const;
const ok = (more: Partial<CallDetail>): CallDetail => ({ ...base, code: "ok", ...more });

describe("the text of a tool result for the model", () => {
  it("is compact JSON for a structured result", () => {
    const detail = ok({
      result: { a: [1, "ü"], b: null },
      content: [{ type: "text", text: "no" }],
    });
    expect(formatResult(detail, 1_000)).toBe('{"a":[1,"ü"],"b":null}');
    expect(formatResult(ok({ result: null }), 1_000)).toBe("null");
  });

  it("has the text of text blocks and only the type of other blocks, if the result is not structured", () => {
    const content = [
      { type: "text", text: "one\r\ntwo\tthree" },
      { type: "image", data: "aGk=", mimeType: "image/png" },
      { type: "text" },
      7,
      { type: "audio\u001b[2J" },
    ];
    expect(formatResult(ok({ content }), 1_000)).toBe(
      "one\ntwo\tthree\n[image]\n[text]\n[content of no kind]\n[audio\\u{1b}[2J]",
    );
    expect(formatResult(ok({ content: [] }), 1_000)).toBe("done; it gave no result");
  });

  it("has the code of a failure, and every invalid argument", () => {
    const errors = [
      { path: "/a", message: "must be string" },
      { path: "", message: "must have b" },
    ];
    expect(formatResult({ ...base, code: "invalid_args", errors }, 1_000)).toBe(
      "not done (invalid_args): /a: must be string; /: must have b",
    );
    expect(formatResult({ ...base, code: "paused" }, 1_000)).toBe("not done (paused): m");
  });

  it("has a maximum length in bytes, and consists of whole code points without control characters", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 200 }),
        fc.integer({ min: 8, max: 120 }),
        (text, bytesMax) => {
          const shown = formatResult(ok({ content: [{ type: "text", text }] }), bytesMax);
          expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(bytesMax);
          expect(shown).not.toMatch(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}]/u);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("is cut before megabytes of it are processed", () => {
    const text = formatResult(
      ok({ content: [{ type: "text", text: "ü".repeat(4_000_000) }] }),
      16_384,
    );
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16_384);
    expect(Buffer.byteLength(text)).toBeGreaterThan(16_378);
    expect(text.endsWith("ü…")).toBe(true);
  });
});

describe("text from apps and users in the prompt", () => {
  it("is unchanged if all its characters are visible", () => {
    const text = "Grüße, 日本語, 👩‍🔬 and\ttabs\nlines";
    expect(escapeText(text)).toBe(text);
  });

  it("is cut between code points", () => {
    expect(truncateText("ab👩cd", 4)).toBe("ab…");
    expect(truncateText("ab👩cd", 5)).toBe("ab👩…");
    expect(truncateText("ab👩cd", 6)).toBe("ab👩cd");
    expect(truncateBytes("ab👩cd", 8)).toBe("ab👩cd");
    expect(truncateBytes("ab👩cd", 7)).toBe("ab…");
    expect(truncateBytes("aü👩", 6)).toBe("aü…");
  });

  it("can be reduced to one line", () => {
    expect(escapeLine("a\n\n- b\u2028c  d", 40)).toBe("a - b c d");
  });
});

describe("the description of a tool's arguments", () => {
  it("has the name, type and description of each argument, and marks optional arguments", () => {
    const schema = {
      type: "object",
      properties: {
        title: { type: "string", description: "First\nline" },
        kind: { enum: ["a", "b"] },
        limit: { type: ["integer", "null"], title: "How many" },
        any: true,
      },
      required: ["title"],
    };
    expect(describeArguments(schema)).toBe(
      'Arguments: title (string): First line; kind (one of "a", "b", optional); limit (integer or null, optional): How many; any (optional)',
    );
    expect(describeArguments({ type: "object" })).toBe("No arguments.");
  });

  it("is limited to a few arguments in one line", () => {
    const names = Array.from({ length: 500 }, (_, index) => [`p${index}\n- x`, { type: "string" }]);
    const line = describeArguments({ type: "object", properties: Object.fromEntries(names) });
    expect(line.length).toBeLessThan(700);
    expect(line).not.toContain("\n");
    expect(line).toContain("and others");
  });
});
