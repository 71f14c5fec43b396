import type { ChatMessage, ToolCall, ToolDefinition } from "../../runner.ts";
import { hermesFormat } from "./tool-format.ts";

/**
 * Renders tools as text for models whose template has none: a system message describes them, and earlier
 * calls and their results become text in the Hermes format.
 */
export function renderToolsAsText(
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[],
): readonly ChatMessage[] {
  const rendered = renderCallsAsText(messages);
  if (tools.length === 0) return rendered;
  const rules = writeToolInstructions(tools);
  const [first, ...others] = rendered;
  if (first === undefined || (first.role !== "system" && first.role !== "developer")) {
    return [{ role: "system", content: rules }, ...rendered];
  }
  return [{ ...first, content: `${first.content}\n\n${rules}` }, ...others];
}

function writeToolInstructions(tools: readonly ToolDefinition[]): string {
  const described = tools.map(({ name, description, parameters }) =>
    JSON.stringify({
      name,
      ...(description !== undefined && { description }),
      parameters: parameters ?? { type: "object", properties: {} },
    }),
  );
  return [
    "You can call these tools:",
    "<tools>",
    ...described,
    "</tools>",
    "To call one, write its name and its arguments as JSON, and nothing after it:",
    `${hermesFormat.before}NAME${hermesFormat.between}{...}${hermesFormat.after}`,
    "Its result comes back to you. Where no tool is needed, answer in plain text.",
  ].join("\n");
}

/**
 * Renders tool calls and their results as plain text, for templates that do not render them. Consecutive results become
 * one user message, because most templates require alternating roles.
 */
function renderCallsAsText(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const rendered: ChatMessage[] = [];
  let isResult = false;
  for (const message of messages) {
    if (message.role === "tool") {
      const content = `<tool_response>\n${message.content}\n</tool_response>`;
      const last = rendered.at(-1);
      if (isResult && last !== undefined) {
        rendered.splice(-1, 1, { ...last, content: `${last.content}\n${content}` });
      } else rendered.push({ role: "user", content });
    } else if (message.toolCalls !== undefined && message.toolCalls.length > 0) {
      const { toolCalls, content, ...rest } = message;
      const calls = toolCalls.map(writeCall).join(hermesFormat.separator);
      rendered.push({ ...rest, content: content === "" ? calls : `${content}\n${calls}` });
    } else rendered.push(message);
    isResult = message.role === "tool";
  }
  return rendered;
}

function writeCall(call: ToolCall): string {
  const name = JSON.stringify(call.name).slice(1, -1);
  return `${hermesFormat.before}${name}${hermesFormat.between}${call.arguments}${hermesFormat.after}`;
}
