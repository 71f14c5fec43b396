import { AssistantError } from "../../assistant-error.ts";
import type { LoadRequest, ModelFacts } from "../inference-engine.ts";

export interface ModelSize {
  readonly contextTokens: number;
  readonly sequences: number;
  readonly memoryBytes: number;
}

const CONTEXT_DEFAULT_MAX = 8192;
/**
 * A context smaller than this is of no use for a conversation. If the memory permits only a smaller context, the model
 * is refused as too large.
 */
const CONTEXT_DEFAULT_MIN = 512;
const SEQUENCES_DEFAULT = [8, 4, 2, 1];

type SizeRequest = Pick<
  LoadRequest,
  "id" | "contextTokens" | "sequences" | "isDeterministic" | "memoryBytesMax"
>;

/**
 * Chooses a model's context and number of KV-cache sequences. A requested context is an upper bound: a model that was
 * trained with less gets what it was trained with, because the setting of the daemon applies to all models. Otherwise
 * requested values are kept or refused; other values are as large as memory permits. The context comes first, because a
 * conversation that exceeds its context is refused, whereas a conversation without a free sequence only waits.
 */
export function chooseSize(
  facts: ModelFacts,
  requested: SizeRequest,
  embeddingsAtOnce: number,
): ModelSize {
  const { isDeterministic } = requested;
  const sequenceChoices =
    facts.kind === "embedding"
      ? [embeddingsAtOnce]
      : requested.sequences === undefined
        ? SEQUENCES_DEFAULT
        : [requested.sequences];
  for (const contextTokens of listContextChoices(facts, requested)) {
    for (const sequences of sequenceChoices) {
      const memoryBytes = facts.memoryBytes({ contextTokens, sequences, isDeterministic });
      if (memoryBytes <= requested.memoryBytesMax) return { contextTokens, sequences, memoryBytes };
    }
  }
  throw tooLargeError(facts, requested, embeddingsAtOnce);
}

/** Returns the context sizes to try, in tokens, from the preferred size down to the smallest useful size. */
function listContextChoices(facts: ModelFacts, requested: SizeRequest): readonly number[] {
  if (requested.contextTokens !== undefined)
    return [Math.min(facts.trainedContextTokens, requested.contextTokens)];
  const largest = Math.min(facts.trainedContextTokens, CONTEXT_DEFAULT_MAX);
  const choices = [largest];
  for (let next = largest / 2; next >= CONTEXT_DEFAULT_MIN; next /= 2)
    choices.push(Math.floor(next));
  return choices;
}

function tooLargeError(
  facts: ModelFacts,
  requested: SizeRequest,
  embeddingsAtOnce: number,
): AssistantError {
  const smallest = listContextChoices(facts, requested).at(-1) ?? CONTEXT_DEFAULT_MIN;
  const sequences = facts.kind === "embedding" ? embeddingsAtOnce : (requested.sequences ?? 1);
  const { isDeterministic } = requested;
  const needed = facts.memoryBytes({ contextTokens: smallest, sequences, isDeterministic });
  const size = `${sequences} ${sequences === 1 ? "sequence" : "sequences"} of ${smallest} tokens`;
  const smaller = suggestSize(facts, requested, embeddingsAtOnce);
  return new AssistantError(
    "insufficient_memory",
    `model "${requested.id}" needs ${formatGigabytes(needed)} with ${size}, but may use only ${formatGigabytes(requested.memoryBytesMax)}; ${smaller}`,
  );
}

function suggestSize(facts: ModelFacts, requested: SizeRequest, embeddingsAtOnce: number): string {
  const relaxed = { ...requested, contextTokens: undefined, sequences: undefined };
  for (const contextTokens of listContextChoices(facts, relaxed)) {
    const sequences = facts.kind === "embedding" ? embeddingsAtOnce : 1;
    const { isDeterministic } = requested;
    const needed = facts.memoryBytes({ contextTokens, sequences, isDeterministic });
    if (needed <= requested.memoryBytesMax) {
      return sequences === 1
        ? `a context of ${contextTokens} tokens with one sequence would fit`
        : `a context of ${contextTokens} tokens would fit`;
    }
  }
  return "use a smaller quantization of the model, use a smaller model, or allow more memory";
}

function formatGigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`;
}
