import type { ChatMessage, Prompt } from "../runner.ts";

/**
 * Renders a chat for a model without a template, with roles as plain words and without control tokens. The
 * result is only an approximation, because the format of the model's training is unknown.
 */
export function renderUntemplatedConversation(messages: readonly ChatMessage[]): Prompt {
  const lines = messages.map(({ role, content }) =>
    role === "system" || role === "developer"
      ? `${content}\n\n`
      : `${roleLabels[role]}: ${content}\n`,
  );
  return { kind: "text", text: `${lines.join("")}${roleLabels.assistant}:` };
}

const roleLabels = { user: "User", assistant: "Assistant", tool: "Tool" } as const;

/** Without a template, an answer ends when the model begins the user's next message. */
export const untemplatedConversationStops: readonly string[] = [`\n${roleLabels.user}:`];
