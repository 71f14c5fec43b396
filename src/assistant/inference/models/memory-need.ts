import type { ModelFacts } from "../inference-engine.ts";
import type { MemoryNeed } from "./eviction-order.ts";
import type { KnownModel } from "./known-models.ts";

/**
 * The engine's defaults for a model: the preferred context and the smallest context in tokens, and the preferred number
 * of KV-cache sequences.
 */
const CONTEXT_TOKENS_PREFERRED = 8_192;
const CONTEXT_TOKENS_LEAST = 512;
const SEQUENCES_PREFERRED = 8;

/** Computes a model's memory need in bytes from its facts and its registered settings. */
export function computeMemoryNeed(
  facts: ModelFacts,
  { contextTokens, sequences, isDeterministic }: KnownModel,
): MemoryNeed {
  const { kind, trainedContextTokens } = facts;
  const atMost = (tokens: number): number => Math.min(trainedContextTokens, tokens);
  return {
    wanted: facts.memoryBytes({
      contextTokens: atMost(contextTokens ?? CONTEXT_TOKENS_PREFERRED),
      sequences: sequences ?? (kind === "embedding" ? 1 : SEQUENCES_PREFERRED),
      isDeterministic,
    }),
    least: facts.memoryBytes({
      contextTokens: atMost(contextTokens ?? CONTEXT_TOKENS_LEAST),
      sequences: sequences ?? 1,
      isDeterministic,
    }),
  };
}
