import type { ChatRequest } from "../../client/rest/chat-client.ts";

/** How answers are asked for and shown. */
export interface ChatSettings {
  readonly system: string | undefined;
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  readonly shouldShowThoughts: boolean;
}

/** As long as the context allows: the assistant's own standard would cut longer answers off. */
const UNLIMITED_TOKENS = -1;

export function createChatRequest(
  model: string,
  messages: ChatRequest["messages"],
  system: string | undefined,
  settings: ChatSettings,
): ChatRequest {
  return {
    model,
    messages: [
      ...(system === undefined ? [] : [{ role: "system", content: system } as const]),
      ...messages,
    ],
    temperature: settings.temperature,
    maxTokens: settings.maxTokens ?? UNLIMITED_TOKENS,
  };
}
