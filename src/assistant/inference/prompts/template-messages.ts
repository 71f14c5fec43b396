import { createHash } from "node:crypto";
import type { ChatMessage, ToolCall, ToolDefinition } from "../runner.ts";
import { mapTexts } from "./control-token-guard.ts";
import type { TemplateCapabilities } from "./template-capabilities.ts";

/** Messages as templates expect them: the words of the chat completions API. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | readonly { readonly type: "text"; readonly text: string }[];
  readonly [field: string]: unknown;
}

/** What happens to each text of a client on its way to a template; see `TextGuard`. */
type TextTransform = (text: string) => string;

/**
 * Roles become those that the template knows: developer is system; where there is no system role either,
 * its text opens the first message of the user, as the makers of such models advise.
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

/** Some templates refuse ids that are not as long as their own; call and result still have the same one. */
function toAcceptedId(id: string, { toolCallIdLength }: TemplateCapabilities): string {
  if (toolCallIdLength === undefined) return id;
  if (id.length === toolCallIdLength && /^[a-zA-Z0-9]+$/.test(id)) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, toolCallIdLength);
}

/** What is not JSON is handed on as it is. */
function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
