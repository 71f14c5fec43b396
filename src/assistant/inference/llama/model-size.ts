import { AssistantError } from "../../assistant-error.ts";
import type { LoadRequest, ModelFacts } from "../inference-engine.ts";

export interface ModelSize {
  readonly contextTokens: number;
  readonly sequences: number;
  readonly memoryBytes: number;
}

const CONTEXT_DEFAULT_MAX = 8192;
/** Less holds no conversation; a model that is given less than this is told to be too large. */
const CONTEXT_DEFAULT_MIN = 512;
const SEQUENCES_DEFAULT = [8, 4, 2, 1];

type SizeRequest = Pick<LoadRequest, "id" | "contextTokens" | "sequences" | "memoryBytesMax">;

/**
 * How much context a model gets, and for how many answers at a time. What was asked for is kept or
 * refused; what was not is chosen: the context first, since a conversation that does not fit is refused,
 * and one that finds no sequence only waits.
 */
export function chooseSize(
  facts: ModelFacts,
  asked: SizeRequest,
  embeddingsAtOnce: number,
): ModelSize {
  const { trainedContextTokens } = facts;
  if (asked.contextTokens !== undefined && asked.contextTokens > trainedContextTokens) {
    throw new AssistantError(
      "model_unusable",
      `model "${asked.id}" was trained with a context of ${trainedContextTokens} tokens, and ${asked.contextTokens} are asked for; ask for at most ${trainedContextTokens}`,
    );
  }
  const sequenceChoices =
    facts.kind === "embedding"
      ? [embeddingsAtOnce]
      : asked.sequences === undefined
        ? SEQUENCES_DEFAULT
        : [asked.sequences];
  for (const contextTokens of listContextChoices(facts, asked)) {
    for (const sequences of sequenceChoices) {
      const memoryBytes = facts.memoryBytes({ contextTokens, sequences });
      if (memoryBytes <= asked.memoryBytesMax) return { contextTokens, sequences, memoryBytes };
    }
  }
  throw tooLargeError(facts, asked, embeddingsAtOnce);
}

/** From the one to prefer down to the smallest that is of use. */
function listContextChoices(facts: ModelFacts, asked: SizeRequest): readonly number[] {
  if (asked.contextTokens !== undefined) return [asked.contextTokens];
  const largest = Math.min(facts.trainedContextTokens, CONTEXT_DEFAULT_MAX);
  const choices = [largest];
  for (let next = largest / 2; next >= CONTEXT_DEFAULT_MIN; next /= 2)
    choices.push(Math.floor(next));
  return choices;
}

function tooLargeError(
  facts: ModelFacts,
  asked: SizeRequest,
  embeddingsAtOnce: number,
): AssistantError {
  const smallest = listContextChoices(facts, asked).at(-1) ?? CONTEXT_DEFAULT_MIN;
  const sequences = facts.kind === "embedding" ? embeddingsAtOnce : (asked.sequences ?? 1);
  const needed = facts.memoryBytes({ contextTokens: smallest, sequences });
  const size = `${sequences} ${sequences === 1 ? "sequence" : "sequences"} of ${smallest} tokens`;
  const smaller = suggestSize(facts, asked, embeddingsAtOnce);
  return new AssistantError(
    "insufficient_memory",
    `model "${asked.id}" needs ${formatGigabytes(needed)} with ${size}, and may take ${formatGigabytes(asked.memoryBytesMax)}; ${smaller}`,
  );
}

function suggestSize(facts: ModelFacts, asked: SizeRequest, embeddingsAtOnce: number): string {
  const relaxed = { ...asked, contextTokens: undefined, sequences: undefined };
  for (const contextTokens of listContextChoices(facts, relaxed)) {
    const sequences = facts.kind === "embedding" ? embeddingsAtOnce : 1;
    if (facts.memoryBytes({ contextTokens, sequences }) <= asked.memoryBytesMax) {
      return sequences === 1
        ? `a context of ${contextTokens} tokens with one sequence would fit`
        : `a context of ${contextTokens} tokens would fit`;
    }
  }
  return "use a file of it with a smaller quantization or a smaller model, or allow more memory";
}

function formatGigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`;
}
