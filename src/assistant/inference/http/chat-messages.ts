import { Type } from "typebox";
import type { ChatMessage, ToolCall } from "../runner.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";
import { unsupportedParamError } from "./unknown-parameters.ts";

const Nullable = { string: Type.Optional(Type.Union([Type.String(), Type.Null()])) };

const message = createValidator(
  Type.Object({
    role: Type.Enum(["system", "developer", "user", "assistant", "tool"]),
    content: Type.Optional(Type.Unknown()),
    name: Nullable.string,
    tool_calls: Type.Optional(Type.Union([Type.Array(Type.Unknown()), Type.Null()])),
    tool_call_id: Nullable.string,
  }),
);

const toolCall = createValidator(
  Type.Object({
    id: Type.String({ minLength: 1 }),
    type: Type.Optional(Type.Literal("function")),
    function: Type.Object({ name: Type.String({ minLength: 1 }), arguments: Type.String() }),
  }),
);

const contentPart = createValidator(Type.Object({ type: Type.String() }));
const textPart = createValidator(Type.Object({ text: Type.String() }));
const refusalPart = createValidator(Type.Object({ refusal: Type.String() }));

/**
 * Types of message parts in OpenAI's API that are refused. A remote model may understand them, but the user cannot
 * consent to sending images yet.
 */
const unsupportedPartTypes: ReadonlySet<string> = new Set([
  "image_url",
  "input_audio",
  "video_url",
  "file",
]);

/**
 * The known members of messages. Some of them are ignored, because no template renders them, but they are not reported
 * as unknown.
 */
const knownMessageKeys = new Set([
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

/** Parses the messages of a request. `unknown` collects the names of ignored members, such as `messages[].color`. */
export function parseMessages(messages: readonly unknown[], unknown: Set<string>): ChatMessage[] {
  return messages.map((value, index) => parseMessage(value, `messages[${index}]`, unknown));
}

function parseMessage(value: unknown, at: string, unknown: Set<string>): ChatMessage {
  const given = message(value, at);
  for (const [key, member] of Object.entries(given)) {
    if (member === null || knownMessageKeys.has(key)) continue;
    if (key === "function_call")
      throw unsupportedParamError(`${at}.function_call`, "use tool_calls");
    if (key === "audio") throw unsupportedParamError(`${at}.audio`, "models read text only");
    unknown.add(`messages[].${key}`);
  }
  const calls = given.tool_calls ?? [];
  if (calls.length > 0 && given.role !== "assistant") {
    throw invalidParamError(`${at}.tool_calls`, "is only allowed in a message of the assistant");
  }
  if (given.role === "tool" && typeof given.tool_call_id !== "string") {
    throw invalidParamError(
      `${at}.tool_call_id`,
      "is required: the id of the tool call whose result this message contains",
    );
  }
  const mayBeEmpty = given.role === "assistant";
  return {
    role: given.role,
    content: parseContent(given.content, `${at}.content`, mayBeEmpty),
    name: given.name ?? undefined,
    toolCalls:
      calls.length === 0
        ? undefined
        : calls.map((call, index) => parseToolCall(call, `${at}.tool_calls[${index}]`)),
    toolCallId: given.tool_call_id ?? undefined,
  };
}

function parseToolCall(value: unknown, at: string): ToolCall {
  const call = toolCall(value, at);
  return { id: call.id, name: call.function.name, arguments: call.function.arguments };
}

function parseContent(content: unknown, at: string, mayBeEmpty: boolean): string {
  if (typeof content === "string") return content;
  if (content === undefined || content === null) {
    if (mayBeEmpty) return "";
    throw invalidParamError(at, "is required");
  }
  if (!Array.isArray(content)) {
    throw invalidParamError(
      at,
      `has to be a string or an array of parts of type text, and is ${describeValueType(content)}`,
    );
  }
  if (content.length === 0 && !mayBeEmpty)
    throw invalidParamError(at, "has to have at least 1 item");
  // Chat templates accept only one text, so the parts become paragraphs of that text.
  return content.map((part, index) => parseContentPart(part, `${at}[${index}]`)).join("\n");
}

function parseContentPart(part: unknown, at: string): string {
  const { type } = contentPart(part, at);
  if (type === "text") return textPart(part, at).text;
  if (type === "refusal") return refusalPart(part, at).refusal;
  if (unsupportedPartTypes.has(type)) {
    const instead = `${type} is not sent to any model, local or remote; send text`;
    throw unsupportedParamError(`${at}.type`, instead);
  }
  throw invalidParamError(`${at}.type`, 'has to be "text"');
}
