import { raceWithAbort } from "../../base/race-with-abort.ts";
import { AssistantError } from "../assistant-error.ts";
import type { ContextEmbedder } from "./port.ts";

/**
 * Embeds texts one by one. Returns an empty vector for a text that is longer than the model's context, so that one long
 * passage does not prevent the embedding of the other texts. Rejects if the model is not available.
 */
export async function embedEach(
  embedder: ContextEmbedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  try {
    const vectors = await raceWithAbort(embedder.embed(texts, signal), signal);
    return vectors.map((vector) => Float32Array.from(vector));
  } catch (error) {
    if (!isContextLengthError(error)) throw error;
    if (texts.length === 1) return [new Float32Array(0)];
    const vectors: Float32Array[] = [];
    for (const text of texts) vectors.push(...(await embedEach(embedder, [text], signal)));
    return vectors;
  }
}

function isContextLengthError(error: unknown): boolean {
  return error instanceof AssistantError && error.code === "context_length_exceeded";
}

/**
 * Describes a failed request to the embedder. Only messages that Berth writes itself are shown, because others may contain
 * text of a provider.
 */
export function describeEmbedderFailure(embedder: ContextEmbedder, error: unknown): string {
  const reason = error instanceof AssistantError ? `: ${error.message}` : "";
  return `the embedding model ${getEmbedderName(embedder)} does not answer${reason}`;
}

export function getEmbedderName({ id, name = id }: Omit<ContextEmbedder, "embed">): string {
  return name;
}
