import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planPrompt } from "../../../../../src/assistant/inference/prompts/plan-prompt.ts";
import { readAnswer, readAnswerWithLogprobs } from "./read-answer.ts";
import { getFamily } from "./template-families.ts";

const weather = { name: "weather", parameters: {} };

function planFor(template: string, names: readonly string[] = ["weather"]) {
  let calls = 0;
  return planPrompt(
    {
      prompt: {
        kind: "chat",
        messages: [{ role: "user", content: "Rain?" }],
        tools: names.map((name) => ({ ...weather, name })),
        variables: {},
      },
      toolChoice: { kind: "auto" },
      parallelToolCalls: true,
      document: undefined,
    },
    template,
    () => `call_${++calls}`,
  );
}

const hermes = planFor(getFamily("chatMl").template);
const list = planFor(getFamily("mistral").template);
const llama = planFor(getFamily("llama3").template);
const named = planFor(getFamily("devstral").template);
const thinker = planFor(getFamily("qwen").template);

/** Returns every split of a text into two pieces, and the split into single characters. */
function cuts(text: string): readonly (readonly string[])[] {
  return [
    ...Array.from(text, (_, at) => [text.slice(0, at), text.slice(at)]),
    text.split(""),
    [text],
  ];
}

describe("tool calls in an answer, however the text is split", () => {
  test.each([
    ["hermes", hermes, '<tool_call>\n{"name": "weather", "arguments": {"a": "}]"}}\n</tool_call>'],
    [
      "hermes, tight",
      hermes,
      '<tool_call>{"name":"weather","arguments":{"a": "}]"}}</tool_call>\n',
    ],
    ["arguments first", hermes, '<tool_call>{"arguments": {"a": "}]"}, "name": "weather"}'],
    ["another key", hermes, '<tool_call>{"id": 7, "name": "weather", "arguments": {"a": "}]"}}'],
    ["a string", hermes, '<tool_call>{"name": "weather", "arguments": "{\\"a\\": \\"}]\\"}"}'],
    ["list", list, '[TOOL_CALLS] [{"name": "weather", "arguments": {"a": "}]"}}]'],
    [
      "list, tight",
      list,
      '[TOOL_CALLS][{"name":"weather","arguments":{"a": "}]"},"id":"123456789"}]',
    ],
    ["bare", llama, '{"name": "weather", "parameters": {"a": "}]"}}'],
    ["tagged", llama, '<|python_tag|>{"name": "weather", "parameters": {"a": "}]"}}'],
    ["named", named, '[TOOL_CALLS]weather[ARGS]{"a": "}]"}'],
    ["named, old", named, '[TOOL_CALLS]weather{"a": "}]"}'],
  ])("are found in the form %s", (_, plan, text) => {
    for (const pieces of cuts(text)) {
      const answer = readAnswer(plan, pieces);
      expect(answer.text).toBe("");
      expect(answer.calls).toEqual([
        { id: expect.stringMatching(/^call_\d+$/), name: "weather", arguments: '{"a": "}]"}' },
      ]);
    }
  });

  test("are found even if there are several after text", () => {
    const text =
      'Let me see.\n\n<tool_call>\n{"name": "weather", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "weather"}\n</tool_call>';
    for (const pieces of cuts(text)) {
      const answer = readAnswer(hermes, pieces);
      expect(answer.text).toBe("Let me see.");
      expect(answer.calls.map((call) => call.arguments)).toEqual(['{"a": 1}', "{}"]);
      expect(new Set(answer.calls.map(({ id }) => id)).size).toBe(2);
    }
    const listed =
      '[TOOL_CALLS] [{"name": "weather", "arguments": {"a": 1}}, {"name": "weather", "arguments": {}}]';
    expect(readAnswer(list, listed.split("")).calls).toHaveLength(2);
    const twice = '[TOOL_CALLS]weather[ARGS]{"a": 1}[TOOL_CALLS]weather[ARGS]{}';
    expect(readAnswer(named, twice.split("")).calls).toHaveLength(2);
  });

  test("have arguments that are streamed as they arrive, after the start of the call", () => {
    const reader = hermes.createParser();
    expect(reader.push('<tool_call>\n{"name": "weather", "arguments": {"a', undefined)).toEqual([
      {
        type: "tool_call",
        index: 0,
        start: { id: expect.any(String), name: "weather" },
        arguments: '{"a',
      },
    ]);
    expect(reader.push('": 1}', undefined)).toEqual([
      { type: "tool_call", index: 0, arguments: '": 1}' },
    ]);
    expect(reader.push("}\n</tool_call>", undefined)).toEqual([]);
    expect(reader.end(false)).toMatchObject({
      deltas: [],
      calledTools: true,
      calls: [{ name: "weather", arguments: '{"a": 1}' }],
    });
  });

  test("have incomplete arguments if the token limit ended the answer within a call", () => {
    const answer = readAnswer(hermes, ['<tool_call>\n{"name": "weather", "arguments": {"a": "b']);
    expect(answer.calls).toMatchObject([{ arguments: '{"a": "b' }]);
    expect(answer.text).toBe("");
  });
});

describe("text that contains no tool call", () => {
  test.each([
    ["a part of a marker", hermes, "a < b, <tool, <tool_cal"],
    ["a marker without a call", hermes, "Write <tool_call> before a call."],
    ["an object that is no call", hermes, '<tool_call>{"nome": 1}</tool_call> and more'],
    ["a call that the model ended before its name", hermes, '<tool_call>\n{"na'],
    ["JSON", llama, '{"name": "Ada", "parameters": {"born": 1815}} was a person'],
    ["JSON of something else", llama, '{"rain": [1, 2]}\n'],
    ["a call further on", llama, 'Look: {"name": "weather", "parameters": {}}'],
    ["blank", llama, "  \n"],
    ["brackets", list, "[TOOL] [TOOL_CALL] [1, 2]"],
    ["no name", named, "[TOOL_CALLS] two words {}"],
  ])("is emitted unchanged: %s", (_, plan, text) => {
    for (const pieces of cuts(text)) {
      const answer = readAnswer(plan, pieces);
      expect(answer.text).toBe(text);
      expect(answer.calledTools).toBe(false);
    }
  });

  test("is emitted unchanged", () => {
    const part = fc.constantFrom(...'<tool_call> {}[]":,\n\\'.split(""), "<tool_call", "name", "x");
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 30 }),
        fc.constantFrom(hermes, llama, list),
        (pieces, plan) => {
          const text = pieces.join("");
          const answer = readAnswer(plan, pieces);
          expect(answer.calledTools || answer.text === text).toBe(true);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

describe("an answer that the token limit cut off", () => {
  const written = 'Let me see.\n\n<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>';
  const listed = 'Let me see. [TOOL_CALLS] [{"name": "weather", "arguments": {}}, {"name": "we';
  test.each([
    ["hermes", hermes, `${written}\n<tool_call>\n{"na`, "Let me see."],
    ["list", list, listed, "Let me see."],
    ["named", named, "Let me see.[TOOL_CALLS]weather[ARGS]{}[TOOL_CALLS]wea", "Let me see."],
    ["bare", llama, '{"name": "weather", "parameters": {}}', ""],
    ["tagged", llama, '\n<|python_tag|>{ "name":"weather", "parameters": {}}', ""],
    ["after reasoning", thinker, `<think>\nHm.\n</think>\n\n${written}`, "Let me see."],
  ])("has no part of a call in its text: %s", (_, plan, whole, before) => {
    for (let length = 0; length <= whole.length; length++) {
      const cut = whole.slice(0, length);
      for (const pieces of [[cut], cut.split("")]) {
        const { text } = readAnswer(plan, pieces, true);
        expect([cut, before.startsWith(text.trimEnd())]).toEqual([cut, true]);
      }
    }
  });

  test.each([
    ["an object that is no call", llama, '{"rain": [1, 2'],
    ["an object with another name", llama, '{"name": "Ada", "parame'],
    ["an unfinished sentence", hermes, "It rains in\n"],
    ["a smaller-than sign in the text", hermes, "a < b"],
  ])("keeps text that is not part of a call: %s", (_, plan, text) => {
    for (const pieces of cuts(text)) expect(readAnswer(plan, pieces, true).text).toBe(text);
  });

  test("has no part of a tag in its reasoning", () => {
    const whole = "<think>\nIt may rain.\n</think>\n\nYes.";
    for (let length = 0; length <= whole.length; length++) {
      const answer = readAnswer(thinker, [whole.slice(0, length)], true);
      expect("It may rain.".startsWith(answer.reasoning)).toBe(true);
      expect("Yes.".startsWith(answer.text)).toBe(true);
    }
  });

  test("has no logprobs of a call that was dropped", () => {
    const answer = readAnswerWithLogprobs(hermes, ["It", " <tool", "_call>", '\n{"na'], true);
    expect(answer.text).toBe("It");
    expect(answer.logprobs.map(({ text }) => text)).toEqual(["It"]);
  });
});

describe("reasoning in an answer", () => {
  test.each([
    ["\n<think>\nIt may rain.\n\n</think>\n\nTake a coat.", "It may rain.", "Take a coat."],
    ["<think>\n\n</think>\n\nYes.", "", "Yes."],
    ["<think>a < b </thin k></think>Yes.", "a < b </thin k>", "Yes."],
    ["<think>not at an end ", "not at an end", ""],
    ["No <think>thoughts</think> here.", "", "No <think>thoughts</think> here."],
    ["<thin", "", "<thin"],
    [" Yes.", "", " Yes."],
  ])("is separated from the text: %j", (text, reasoning, answer) => {
    for (const pieces of cuts(text)) {
      expect(readAnswer(thinker, pieces)).toMatchObject({ reasoning, text: answer });
    }
  });

  test("may precede tool calls, and contains no calls itself", () => {
    const call = '<tool_call>\n{"name": "weather", "arguments": {"a": 1}}\n</tool_call>';
    for (const pieces of cuts(`<think>${call}?</think>\n${call}`)) {
      const answer = readAnswer(thinker, pieces);
      expect(answer.reasoning).toBe(`${call}?`);
      expect(answer.calls).toHaveLength(1);
      expect(answer.text).toBe("");
    }
  });
});

describe("logprobs in an answer", () => {
  test("are emitted with the text, one for each token", () => {
    const pieces = ["It", " rains", " <", " now", "."];
    const answer = readAnswerWithLogprobs(hermes, pieces);
    expect(answer.text).toBe("It rains < now.");
    expect(answer.logprobs.map(({ text }) => text)).toEqual(pieces);
  });

  test("are not emitted for reasoning and tool calls", () => {
    const pieces = [
      "<think>",
      "hm",
      "</think>",
      "It",
      " rains",
      ".",
      "<tool",
      "_call>",
      '{"name": "weather"}',
    ];
    const answer = readAnswerWithLogprobs(thinker, pieces);
    expect(answer.logprobs.map(({ text }) => text)).toEqual(["It", " rains", "."]);
  });

  test("are emitted even if one piece of text has more of them than a JavaScript function call may have arguments", () => {
    const logprobs = Array.from({ length: 200_000 }, () => ({
      text: "",
      bytes: [],
      logprob: -1,
      top: [],
    }));
    const [delta] = hermes.createParser().push("It rains.", logprobs);
    expect(delta).toMatchObject({ type: "text" });
    expect(delta).toHaveProperty("logprobs.length", 200_000);
  });

  test("of a last token whose text is held back are emitted at the end", () => {
    expect(readAnswerWithLogprobs(hermes, ["a", " <"]).logprobs).toHaveLength(2);
    expect(readAnswerWithLogprobs(hermes, [""]).logprobs).toHaveLength(1);
  });
});
