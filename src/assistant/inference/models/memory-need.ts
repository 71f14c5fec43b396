import type { ModelFacts } from "../inference-engine.ts";
import type { MemoryNeed } from "./eviction-order.ts";
import type { KnownModel } from "./known-models.ts";

/** What the engine prefers, and the smallest context that it gives a model, where neither was asked for. */
const CONTEXT_TOKENS_PREFERRED = 8_192;
const CONTEXT_TOKENS_LEAST = 512;
const SEQUENCES_PREFERRED = 8;

/** In bytes: with all that the engine would like to give the model, and with the least that is of use. */
export function computeMemoryNeed(
  facts: ModelFacts,
  { contextTokens, sequences }: KnownModel,
): MemoryNeed {
  const { kind, trainedContextTokens } = facts;
  return {
    wanted: facts.memoryBytes({
      contextTokens: contextTokens ?? Math.min(trainedContextTokens, CONTEXT_TOKENS_PREFERRED),
      sequences: sequences ?? (kind === "embedding" ? 1 : SEQUENCES_PREFERRED),
    }),
    least: facts.memoryBytes({
      contextTokens: contextTokens ?? Math.min(trainedContextTokens, CONTEXT_TOKENS_LEAST),
      sequences: sequences ?? 1,
    }),
  };
}
