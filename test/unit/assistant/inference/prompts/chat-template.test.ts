import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import {
  type ChatPrompt,
  ChatTemplate,
} from "../../../../../src/assistant/inference/prompts/chat-template.ts";
import type { ChatMessage } from "../../../../../src/assistant/inference/runner.ts";
import { getFamily, type TemplateFamily } from "./template-families.ts";

const question: ChatMessage = { role: "user", content: "What is the weather?" };
const weather = {
  name: "weather",
  description: "Tells the weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const turns: readonly ChatMessage[] = [
  question,
  {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "call_0123456789", name: "weather", arguments: '{"city":"Graz"}' }],
  },
  { role: "tool", toolCallId: "call_0123456789", content: "sunny" },
];

describe("the rendering of a conversation by each family's template", () => {
  test("has the format chatML if the template defines this format", () => {
    expect(text("chatMl", [{ role: "system", content: "Be brief." }, question])).toBe(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is the weather?<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  test("contains the current date if the template renders it", () => {
    expect(text("llama3", [question])).toContain("Today Date: 24 Dec 2025\n");
  });

  test("contains tools and earlier calls, whose arguments are objects", () => {
    const rendered = text("chatMl", turns, [weather]);
    expect(rendered).toContain(
      '{"type": "function", "function": {"name": "weather", "description": "Tells the weather"',
    );
    expect(rendered).toContain('{"name": "weather", "arguments": {"city": "Graz"}}');
    expect(rendered).toContain("<tool_response>\nsunny\n</tool_response>");
  });

  test("writes null, numbers and booleans of earlier calls as the template's language does", () => {
    const python: TemplateFamily = {
      ...getFamily("phi"),
      template: `{% for m in messages %}{{ m.content }}{% for call in m.tool_calls %}{% for name, value in call.function.arguments.items() %} {{ name }}={{ value }}{% endfor %} {{ call.function.arguments }} {{ call.function.arguments | tojson }} {{ call.function.arguments.a ~ '' }}{% endfor %}{% endfor %}`,
    };
    const call = { id: "1", name: "weather", arguments: '{"a":null,"b":true,"c":1.0,"d":[1,"x"]}' };
    expect(render(python, [question, { role: "assistant", content: "", toolCalls: [call] }])).toBe(
      `What is the weather? a=None b=True c=1.0 d=[1, 'x'] {'a': None, 'b': True, 'c': 1.0, 'd': [1, 'x']} {"a": null, "b": true, "c": 1.0, "d": [1, "x"]} None`,
    );
  });

  test("shortens call ids to the length that the template requires, in the call and in its result", () => {
    const ids = [...text("mistral", turns).matchAll(/id": "([^"]*)"/g)].map(([, id]) => id);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toMatch(/^[a-z0-9]{9}$/);
    expect(ids[1]).toBe(ids[0]);
  });

  test("replaces the role developer by system if the template does not know developer", () => {
    expect(text("chatMl", [{ role: "developer", content: "Be brief." }, question])).toBe(
      text("chatMl", [{ role: "system", content: "Be brief." }, question]),
    );
    const own: TemplateFamily = {
      ...getFamily("phi"),
      template: `{% for m in messages %}{% if m.role == 'developer' %}[dev]{% endif %}{{ m.content }}{% endfor %}`,
    };
    expect(render(own, [{ role: "developer", content: "Be brief." }])).toBe("[dev]Be brief.");
  });

  test("puts system text before the first question if the template has no system role", () => {
    expect(text("gemma", [{ role: "system", content: "Be brief." }, question])).toBe(
      "<bos><start_of_turn>user\nBe brief.\n\nWhat is the weather?<end_of_turn>\n<start_of_turn>model\n",
    );
  });

  test("passes an empty list of tools if the template always iterates over tools", () => {
    const unasked: TemplateFamily = {
      ...getFamily("phi"),
      template: `{% for tool in tools %}{{ tool }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}`,
    };
    expect(render(unasked, [question])).toBe(question.content);
  });

  test("passes content as parts if the template requires that", () => {
    const parts: TemplateFamily = {
      ...getFamily("phi"),
      template: `{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}`,
    };
    expect(render(parts, [question])).toBe(question.content);
  });

  test("passes variables of the request to the template", () => {
    const thinking = text("qwen", [question], [], { enable_thinking: false });
    expect(thinking.endsWith("<think>\n\n</think>\n\n")).toBe(true);
    expect(text("qwen", [question])).not.toContain("<think>");
  });
});

describe("errors of a chat template", () => {
  test("contain the message that the template raises", () => {
    const error = refusal(() => text("gemma", [question, question]));
    expect(error).toBeInstanceOf(AssistantError);
    expect(error).toMatchObject({
      code: "invalid_request",
      param: "messages",
      message:
        "the model's chat template refuses these messages: Conversation roles must alternate user/assistant/user/assistant/...",
    });
    expect(
      refusal(() => text("chatMl", [question, { role: "system", content: "late" }])),
    ).toMatchObject({ message: expect.stringContaining("the system message comes first") });
  });

  test("blame the model if the template is invalid", () => {
    const broken: TemplateFamily = { ...getFamily("phi"), template: "{% for m in messages %}" };
    expect(refusal(() => render(broken, [question]))).toMatchObject({
      code: "model_unusable",
    });
  });

  test("blame the model if the template fails for every message, and the request if it fails only for some", () => {
    const failing: TemplateFamily = {
      ...getFamily("phi"),
      template: "{{ messages[0].content + nothing.at.all }}",
    };
    expect(refusal(() => render(failing, [question]))).toMatchObject({ code: "model_unusable" });
    const picky: TemplateFamily = {
      ...getFamily("phi"),
      template:
        "{% for m in messages %}{{ m.content + (m.name or '') }}{% if m.name %}{{ m.name + none }}{% endif %}{% endfor %}",
    };
    expect(refusal(() => render(picky, [{ ...question, name: "Ada" }]))).toMatchObject({
      code: "invalid_request",
    });
  });

  test("are shown in one line without private-use characters if the template fails for a message", () => {
    const failing: TemplateFamily = {
      ...getFamily("phi"),
      template: `{{ raise_exception('no:\\n' + messages[0].content) }}`,
    };
    const error = refusal(() => render(failing, [{ role: "user", content: "<|end|>\nx" }]));
    expect(error).toMatchObject({ message: expect.stringMatching(/no: x$/) });
  });

  test("are reported for a template with an endless loop, which is stopped", () => {
    const endless: TemplateFamily = {
      ...getFamily("phi"),
      template: `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`,
    };
    expect(refusal(() => render(endless, [question]))).toMatchObject({
      code: "model_unusable",
      message: expect.stringContaining("took longer than"),
    });
  });

  test("cannot be caused by a variable that has the name of a helper", () => {
    const error = refusal(() => text("chatMl", [question], [], { raise_exception: "mine" }));
    expect(error).toMatchObject({ code: "invalid_request" });
  });
});

function refusal(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was refused");
}

function text(
  name: string,
  messages: readonly ChatMessage[],
  tools: ChatPrompt["tools"] = [],
  variables: ChatPrompt["variables"] = {},
): string {
  return render(getFamily(name), messages, tools, variables);
}

function render(
  { template, vocabulary }: TemplateFamily,
  messages: readonly ChatMessage[],
  tools: ChatPrompt["tools"] = [],
  variables: ChatPrompt["variables"] = {},
): string {
  const chat = new ChatTemplate({
    source: template,
    vocabulary,
    now: () => Date.parse("2025-12-24T18:00:00Z"),
  });
  const pieces = chat.render({ kind: "chat", messages, tools, variables });
  return pieces.map((piece) => piece.text).join("");
}
