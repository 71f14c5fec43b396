import { hashJson } from "../../../base/canonical-json.ts";
import type { NewEntry } from "../../ledger/port.ts";
import { DEFAULT_TOKENS_MAX, type EmbedRequest, type GenerateRequest } from "../service-port.ts";

/**
 * Returns the ledger's entry for a request. It has the figures for accounting and a salted digest of the text, which
 * can prove that a given text was sent. The text itself can neither be read nor guessed from the digest.
 */
export function createGenerateEntry(request: GenerateRequest, model: string): NewEntry {
  const chat = request.prompts.find((prompt) => prompt.kind === "chat");
  return {
    name: "inference.generate",
    fields: {
      model,
      priority: request.priority,
      prompts: request.prompts.length,
      choices: request.prompts.length * request.n,
      messages: chat?.kind === "chat" ? chat.messages.length : 0,
      tools: chat?.kind === "chat" ? chat.tools.length : 0,
      guide: request.guide.kind,
      streamed: request.isStreamed,
      // A limit of null means that the answer may extend to the end of the context.
      max_tokens:
        request.maxTokens === Number.POSITIVE_INFINITY
          ? null
          : (request.maxTokens ?? DEFAULT_TOKENS_MAX),
    },
    sealed: { prompts_sha256: hashJson(request.prompts) },
  };
}

export function createEmbedEntry(request: EmbedRequest, model: string): NewEntry {
  return {
    name: "inference.embed",
    fields: { model, priority: request.priority, texts: request.texts.length },
    sealed: { texts_sha256: hashJson(request.texts) },
  };
}
