import { afterEach, describe, expect, it, vi } from "vitest";
import { parseArguments } from "../../../src/assistant/agent/calls/parse-arguments.ts";
import { parseGenerateCall } from "../../../src/assistant/inference/bus/session-requests.ts";
import { parseAskRequest } from "../../../src/assistant/overlay/parse-ask-request.ts";
import { InvalidJsonError, parseStrictJson } from "../../../src/base/strict-json.ts";
import type { BusDictionary } from "../../../src/dbus/port.ts";

const rules = { depthMax: 256, forbiddenKeys: new Set<string>() };
const parse = (text: string) => parseStrictJson(Buffer.from(text), rules);
const brackets = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
const options = (given: Readonly<Record<string, string>>): BusDictionary =>
  new Map(Object.entries(given).map(([name, value]) => [name, { signature: "s", value }]));
const list = (item: (at: number) => string, count: number) =>
  Array.from({ length: count }, (_, at) => item(at)).join(",");

afterEach(() => vi.restoreAllMocks());

describe("JSON that would block the process", () => {
  it.each([
    ["deep arrays", brackets, "the body is nested deeper than 256 levels"],
    ["deep objects", '{"a":'.repeat(100_000), "the body is nested deeper than 256 levels"],
    ["many keys", `{${list((at) => `"${at}":0`, 100_001)}}`, "the body has more than 100000 keys"],
    [
      "many arrays",
      `[${list(() => "[]", 100_000)}]`,
      "the body has more than 100000 objects and arrays",
    ],
  ])("is refused before it is parsed: %s", (_, text, message) => {
    const parser = vi.spyOn(JSON, "parse");
    expect(() => parse(text)).toThrow(new InvalidJsonError(message));
    expect(parser).not.toHaveBeenCalled();
  });

  it("is refused in the arguments of a tool, in a history and in a schema too", () => {
    const parser = vi.spyOn(JSON, "parse");
    expect(parseArguments(brackets)).toBe("args_json is nested deeper than 32 levels");
    expect(() => parseAskRequest("x", options({ lane: "chat", history_json: brackets }))).toThrow(
      "history_json is nested deeper than 2 levels",
    );
    expect(() => parseGenerateCall(undefined, ["x", options({ schema: brackets })])).toThrow(
      "schema is nested deeper than 256 levels",
    );
    expect(parser).not.toHaveBeenCalled();
  });
});

it("the limits do not count brackets and colons in strings, nor long lists of numbers", () => {
  const text = JSON.stringify({
    a: '[{":\\"'.repeat(100_000),
    b: Array<number>(200_000).fill(1.5),
  });
  expect(JSON.stringify(parse(text)) === text).toBe(true);
});

it("the longest chat that the API accepts does not exceed the limits on the depth and the size of JSON", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const message = { role: "assistant", content: null, tool_calls: [call] };
  const text = JSON.stringify({ messages: Array.from({ length: 10_000 }, () => message) });
  expect(JSON.stringify(parse(text)) === text).toBe(true);
});
