import type { ChatMessage, ToolCall, ToolDefinition } from "../../runner.ts";
import { hermes } from "./tool-format.ts";

/**
 * For models whose template knows no tools: they are described in the rules, and calls of earlier turns
 * and their results become text in the same format.
 */
export function withToolsAsText(
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[],
): readonly ChatMessage[] {
  const told = withCallsAsText(messages);
  if (tools.length === 0) return told;
  const rules = toolRules(tools);
  const [first, ...others] = told;
  if (first === undefined || (first.role !== "system" && first.role !== "developer")) {
    return [{ role: "system", content: rules }, ...told];
  }
  return [{ ...first, content: `${first.content}\n\n${rules}` }, ...others];
}

function toolRules(tools: readonly ToolDefinition[]): string {
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
    `${hermes.before}NAME${hermes.between}{...}${hermes.after}`,
    "Its result comes back to you. Where no tool is needed, answer in plain text.",
  ].join("\n");
}

/** Results that follow each other are one message: most templates want turns to alternate. */
function withCallsAsText(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const told: ChatMessage[] = [];
  let isResult = false;
  for (const message of messages) {
    if (message.role === "tool") {
      const content = `<tool_response>\n${message.content}\n</tool_response>`;
      const last = told.at(-1);
      if (isResult && last !== undefined) {
        told.splice(-1, 1, { ...last, content: `${last.content}\n${content}` });
      } else told.push({ role: "user", content });
    } else if (message.toolCalls !== undefined && message.toolCalls.length > 0) {
      const { toolCalls, content, ...rest } = message;
      const calls = toolCalls.map(callText).join(hermes.separator);
      told.push({ ...rest, content: content === "" ? calls : `${content}\n${calls}` });
    } else told.push(message);
    isResult = message.role === "tool";
  }
  return told;
}

function callText(call: ToolCall): string {
  const name = JSON.stringify(call.name).slice(1, -1);
  return `${hermes.before}${name}${hermes.between}${call.arguments}${hermes.after}`;
}
