import { describe, expect, it } from "vitest";
import { parseArguments } from "../../../../../src/assistant/agent/calls/parse-arguments.ts";

describe("parsing the arguments of a call", () => {
  it("returns the canonical text of the arguments", () => {
    expect(parseArguments(' {"b": 1.50, "a": ["\\u00e4", -0, 1e2, null] } ')).toEqual({
      args: { a: ["ä", -0, 100, null], b: 1.5 },
      text: '{"a":["ä",0,100,null],"b":1.5}',
    });
  });

  it.each([
    ["", "must be a JSON object"],
    ["null", "must be a JSON object"],
    ["[1]", "must be a JSON object"],
    ['"x"', "must be a JSON object"],
    ["{", "not JSON"],
    ["{'a': 1}", "not JSON"],
    ['{"a": NaN}', "not JSON"],
    ['{"a": 1, "a": 2}', "twice"],
    ['{"a": {"b": 1, "\\u0062": 2}}', "twice"],
    ['{"__proto__": {}}', "not allowed"],
    ['{"a": [{"\\u005f_proto__": 1}]}', "not allowed"],
    ['{"a": 9007199254740993}', "/a"],
    ['{"a": [1, 1e300]}', "/a/1"],
    ['{"a/b": 1e400}', "/a~1b"],
    ['{"a": ["\\ud83d\\ude00", "\\ud83d"]}', "the text at /a/1 has half of a surrogate pair"],
    ['{"a": "\\ude00\\ud83d"}', "the text at /a has half of a surrogate pair"],
    ['{"a": {"\\udc00": 1}}', "the object at /a has a key with half of a surrogate pair"],
    [`${'{"a":'.repeat(40)}1${"}".repeat(40)}`, "deeper"],
    [JSON.stringify({ a: "x".repeat(1024 * 1024) }), "1024 KiB"],
  ])("refuses the invalid arguments %.40s", (text, why) => {
    expect(parseArguments(text)).toContain(why);
  });

  it("accepts whole surrogate pairs, escaped or not", () => {
    expect(parseArguments('{"\\ud83d\\ude00": "😀"}')).toMatchObject({ args: { "😀": "😀" } });
  });

  it("does not quote refused arguments in the error", () => {
    expect(parseArguments('{"secret": "hunter2"')).not.toContain("hunter2");
  });
});
