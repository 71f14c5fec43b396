import { createHash } from "node:crypto";
import type { ChatMessage, ToolCall, ToolDefinition } from "../runner.ts";
import type { TemplateTraits } from "./template-traits.ts";
import { mapTexts } from "./text-guard.ts";

/** Messages as templates expect them: the words of the chat completions API. */
export interface TemplateMessage {
  readonly role: string;
  readonly content: string | readonly { readonly type: "text"; readonly text: string }[];
  readonly [field: string]: unknown;
}

/** What happens to each text of a client on its way to a template; see `TextGuard`. */
type Change = (text: string) => string;

/**
 * Roles become those that the template knows: developer is system; where there is no system role either,
 * its text opens the first message of the user, as the makers of such models advise.
 */
export function templateMessages(
  messages: readonly ChatMessage[],
  traits: TemplateTraits,
  change: Change,
): readonly TemplateMessage[] {
  return withKnownRoles(messages, traits).map((message) => ({
    role: message.role,
    content: traits.contentParts
      ? [{ type: "text", text: change(message.content) }]
      : change(message.content),
    ...(message.name !== undefined && { name: change(message.name) }),
    ...(message.toolCallId !== undefined && {
      tool_call_id: change(knownId(message.toolCallId, traits)),
    }),
    ...(message.toolCalls !== undefined &&
      message.toolCalls.length > 0 && {
        tool_calls: message.toolCalls.map((call) => templateCall(call, traits, change)),
      }),
  }));
}

export function templateTool(tool: ToolDefinition, change: Change): unknown {
  return {
    type: "function",
    function: {
      name: change(tool.name),
      description: change(tool.description ?? ""),
      parameters: mapTexts(tool.parameters ?? { type: "object", properties: {} }, change),
    },
  };
}

function withKnownRoles(
  messages: readonly ChatMessage[],
  traits: TemplateTraits,
): readonly ChatMessage[] {
  const known = messages.map(
    (message): ChatMessage =>
      message.role === "developer" && !traits.developerRole
        ? { ...message, role: "system" }
        : message,
  );
  if (traits.systemRole) return known;
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

function templateCall(call: ToolCall, traits: TemplateTraits, change: Change): unknown {
  return {
    id: change(knownId(call.id, traits)),
    type: "function",
    function: {
      name: change(call.name),
      arguments: traits.argumentObjects
        ? mapTexts(parsed(call.arguments), change)
        : change(call.arguments),
    },
  };
}

/** Some templates refuse ids that are not as long as their own; call and result still have the same one. */
function knownId(id: string, { toolCallIdLength }: TemplateTraits): string {
  if (toolCallIdLength === undefined) return id;
  if (id.length === toolCallIdLength && /^[a-zA-Z0-9]+$/.test(id)) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, toolCallIdLength);
}

/** What is not JSON is handed on as it is. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
