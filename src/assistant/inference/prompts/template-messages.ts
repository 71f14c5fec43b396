import { createHash } from "node:crypto";
import type { ChatMessage, ToolCall, ToolDefinition } from "../runner.ts";
import { mapTexts } from "./control-token-guard.ts";
import { Float } from "./jinja/values.ts";
import type { TemplateCapabilities } from "./template-capabilities.ts";

/** A message in the format that templates expect, which is that of the chat completions API. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | readonly { readonly type: "text"; readonly text: string }[];
  readonly [field: string]: unknown;
}

/** A function that is applied to each text of a client before rendering; see `TextMasker`. */
type TextTransform = (text: string) => string;

/**
 * Converts messages and maps their roles to those that the template has: developer becomes system. Without
 * a system role, the system text begins the first user message, as the publishers of such models advise.
 */
export function toTemplateMessages(
  messages: readonly ChatMessage[],
  capabilities: TemplateCapabilities,
  transform: TextTransform,
): readonly TemplateMessage[] {
  return mapRoles(messages, capabilities).map((message) => ({
    role: message.role,
    content: capabilities.wantsContentParts
      ? [{ type: "text", text: transform(message.content) }]
      : transform(message.content),
    ...(message.name !== undefined && { name: transform(message.name) }),
    ...(message.toolCallId !== undefined && {
      tool_call_id: transform(toAcceptedId(message.toolCallId, capabilities)),
    }),
    ...(message.toolCalls !== undefined &&
      message.toolCalls.length > 0 && {
        tool_calls: message.toolCalls.map((call) => toTemplateCall(call, capabilities, transform)),
      }),
  }));
}

export function toTemplateTool(tool: ToolDefinition, transform: TextTransform): unknown {
  return {
    type: "function",
    function: {
      name: transform(tool.name),
      description: transform(tool.description ?? ""),
      parameters: mapTexts(tool.parameters ?? { type: "object", properties: {} }, transform),
    },
  };
}

function mapRoles(
  messages: readonly ChatMessage[],
  capabilities: TemplateCapabilities,
): readonly ChatMessage[] {
  const known = messages.map(
    (message): ChatMessage =>
      message.role === "developer" && !capabilities.hasDeveloperRole
        ? { ...message, role: "system" }
        : message,
  );
  if (capabilities.hasSystemRole) return known;
  const rules = known.filter(({ role }) => role === "system").map(({ content }) => content);
  if (rules.length === 0) return known;
  const others = known.filter(({ role }) => role !== "system");
  const first = others.findIndex(({ role }) => role === "user");
  const text = rules.join("\n\n");
  if (first === -1) return [{ role: "user", content: text }, ...others];
  return others.map((message, index) =>
    index === first ? { ...message, content: `${text}\n\n${message.content}` } : message,
  );
}

function toTemplateCall(
  call: ToolCall,
  capabilities: TemplateCapabilities,
  transform: TextTransform,
): unknown {
  return {
    id: transform(toAcceptedId(call.id, capabilities)),
    type: "function",
    function: {
      name: transform(call.name),
      arguments: capabilities.wantsArgumentObjects
        ? mapTexts(parseJsonOrText(call.arguments), transform)
        : transform(call.arguments),
    },
  };
}

/** Shortens ids for templates that require a fixed length; a tool call and its result still have equal ids. */
function toAcceptedId(id: string, { toolCallIdLength }: TemplateCapabilities): string {
  if (toolCallIdLength === undefined) return id;
  if (id.length === toolCallIdLength && /^[a-zA-Z0-9]+$/.test(id)) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, toolCallIdLength);
}

/**
 * Parses a text as JSON, in which `1.0` stays a float: templates write the number as Python does. Returns the text itself
 * if it is not JSON.
 */
function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) =>
      Number.isInteger(value) && /[.eE]/.test(context?.source ?? "")
        ? new Float(Number(value))
        : value,
    ) as unknown;
  } catch {
    return text;
  }
}
