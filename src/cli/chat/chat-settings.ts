import type { ChatRequest } from "../../client/rest/chat-client.ts";

/** Options for requesting and printing answers. */
export interface ChatSettings {
  readonly system: string | undefined;
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  readonly shouldShowThoughts: boolean;
}

/** Allows answers up to the end of the context. The default of the assistant would truncate long answers. */
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
