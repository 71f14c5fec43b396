import { Type } from "typebox";
import type { ChatMessage, ToolCall } from "../runner.ts";
import { checked, kindOf, refused } from "./checked.ts";
import { unsupported } from "./parameters.ts";

const Nullable = { string: Type.Optional(Type.Union([Type.String(), Type.Null()])) };

const message = checked(
  Type.Object({
    role: Type.Enum(["system", "developer", "user", "assistant", "tool"]),
    content: Type.Optional(Type.Unknown()),
    name: Nullable.string,
    tool_calls: Type.Optional(Type.Union([Type.Array(Type.Unknown()), Type.Null()])),
    tool_call_id: Nullable.string,
  }),
);

const toolCall = checked(
  Type.Object({
    id: Type.String({ minLength: 1 }),
    type: Type.Optional(Type.Literal("function")),
    function: Type.Object({ name: Type.String({ minLength: 1 }), arguments: Type.String() }),
  }),
);

const contentPart = checked(Type.Object({ type: Type.String() }));
const textPart = checked(Type.Object({ text: Type.String() }));
const refusalPart = checked(Type.Object({ refusal: Type.String() }));

/** Known elsewhere. A remote model may well read them, but nothing asks yet whether an image may leave. */
const otherParts: ReadonlySet<string> = new Set(["image_url", "input_audio", "video_url", "file"]);

/** Messages carry these too; none of them is part of what a template renders. */
const messageKeys = new Set([
  "role",
  "content",
  "name",
  "tool_calls",
  "tool_call_id",
  "refusal",
  "annotations",
  "reasoning_content",
  "id",
]);

/** `unknown` collects names of keys that nothing is done with, as `messages[].color`. */
export function messagesOf(messages: readonly unknown[], unknown: Set<string>): ChatMessage[] {
  return messages.map((value, index) => messageOf(value, `messages[${index}]`, unknown));
}

function messageOf(value: unknown, at: string, unknown: Set<string>): ChatMessage {
  const given = message(value, at);
  for (const [key, member] of Object.entries(given)) {
    if (member === null || messageKeys.has(key)) continue;
    if (key === "function_call") throw unsupported(`${at}.function_call`, "use tool_calls");
    if (key === "audio") throw unsupported(`${at}.audio`, "models read text only");
    unknown.add(`messages[].${key}`);
  }
  const calls = given.tool_calls ?? [];
  if (calls.length > 0 && given.role !== "assistant") {
    throw refused(`${at}.tool_calls`, "may only stand on a message of the assistant");
  }
  if (given.role === "tool" && typeof given.tool_call_id !== "string") {
    throw refused(`${at}.tool_call_id`, "is required: which call this is the result of");
  }
  const mayBeEmpty = given.role === "assistant";
  return {
    role: given.role,
    content: contentOf(given.content, `${at}.content`, mayBeEmpty),
    name: given.name ?? undefined,
    toolCalls:
      calls.length === 0
        ? undefined
        : calls.map((call, index) => callOf(call, `${at}.tool_calls[${index}]`)),
    toolCallId: given.tool_call_id ?? undefined,
  };
}

function callOf(value: unknown, at: string): ToolCall {
  const call = toolCall(value, at);
  return { id: call.id, name: call.function.name, arguments: call.function.arguments };
}

function contentOf(content: unknown, at: string, mayBeEmpty: boolean): string {
  if (typeof content === "string") return content;
  if (content === undefined || content === null) {
    if (mayBeEmpty) return "";
    throw refused(at, "is required");
  }
  if (!Array.isArray(content)) {
    throw refused(
      at,
      `has to be a string or an array of parts of type text, and is ${kindOf(content)}`,
    );
  }
  if (content.length === 0 && !mayBeEmpty) throw refused(at, "has to have at least 1 item");
  // Templates take one text; parts are paragraphs of it.
  return content.map((part, index) => textOf(part, `${at}[${index}]`)).join("\n");
}

function textOf(part: unknown, at: string): string {
  const { type } = contentPart(part, at);
  if (type === "text") return textPart(part, at).text;
  if (type === "refusal") return refusalPart(part, at).refusal;
  if (otherParts.has(type)) {
    const instead = `${type} goes to no model, neither here nor elsewhere; send text`;
    throw unsupported(`${at}.type`, instead);
  }
  throw refused(`${at}.type`, 'has to be "text"');
}
