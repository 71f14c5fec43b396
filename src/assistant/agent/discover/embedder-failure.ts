import { AssistantError } from "../../assistant-error.ts";
import type { ContextEmbedder } from "../../context/port.ts";

/**
 * Describes for people why the embedder gave no vectors. Only messages that Berth writes itself are shown, because
 * others may contain text of a provider.
 */
export function describeFailure(embedder: ContextEmbedder, error: unknown): string {
  const reason = error instanceof AssistantError ? `: ${error.message}` : "";
  return `the embedding model ${getModelName(embedder)} does not answer${reason}`;
}

export function getModelName({ id, name = id }: ContextEmbedder): string {
  return name;
}
