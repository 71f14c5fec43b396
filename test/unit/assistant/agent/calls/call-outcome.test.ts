import { describe, expect, it } from "vitest";
import { toOutcome, toSingleLine } from "../../../../../src/assistant/agent/calls/call-outcome.ts";

const empty = { structured: undefined, content: [], isError: false };

describe("the outcome of a tool call", () => {
  it("is the app's result, unchanged", () => {
    const outcome = toOutcome({ ...empty, structured: { a: 1 }, content: [{ type: "text" }] });
    expect(outcome).toMatchObject({ status: "executed", structured: { a: 1 } });
  });

  it("is tool_error with the app's message if the tool failed", () => {
    const content = [
      { type: "text", text: "no\n\u001b[31msuch " },
      { type: "image" },
      { type: "text", text: "note" },
    ];
    expect(toOutcome({ ...empty, content, isError: true })).toEqual({
      status: "failed",
      code: "tool_error",
      message: "no [31msuch note",
    });
    expect(toOutcome({ ...empty, isError: true })).toMatchObject({ code: "tool_error" });
  });

  it("is bad_result if it is nested too deeply", () => {
    let deep: unknown = [];
    for (let level = 0; level < 50_000; level += 1) deep = [deep];
    expect(toOutcome({ ...empty, content: [deep] })).toMatchObject({ code: "bad_result" });
  });
});

describe("a message from an app", () => {
  it("is shortened to one line of at most 500 characters, and cut between code points", () => {
    const line = toSingleLine(`a\tb\u2028c ${"😀".repeat(2_000)}`);
    expect(Array.from(line)).toHaveLength(500);
    expect(line.startsWith("a b c 😀")).toBe(true);
    expect(line.endsWith("😀…")).toBe(true);
    expect(toSingleLine("\ud83d")).toBe("\ufffd");
  });
});
