import type { ChatMessage, Prompt } from "../runner.ts";

/**
 * For models that come without a template and are asked to chat all the same: roles are plain words. It
 * is a poor likeness of a chat, since nobody knows what the model was trained on, and it has no control
 * tokens in it.
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

/** Where an answer without a template ends: the model goes on with the user's next turn. */
export const untemplatedConversationStops: readonly string[] = [`\n${roleLabels.user}:`];
