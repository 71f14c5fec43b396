import type { LlamaContextSequence } from "node-llama-cpp";
import { toLibraryTokens } from "./llama-library.ts";

/** The token that is evaluated in measurements. The duration does not depend on its value. */
const ANY_TOKEN = 0;
const MEASURED_STEPS = 3;
const MEASURED_PROMPT_TOKENS = 64;

/**
 * Evaluates several decoding steps, each with one token for every KV-cache sequence, and returns the duration of the
 * fastest step in milliseconds. Calls `before` before each step.
 */
export async function measureSteps(
  sequences: readonly LlamaContextSequence[],
  before: () => void,
): Promise<number> {
  const streams = sequences.map((sequence) => {
    const options = { temperature: 0, yieldEogToken: true };
    return sequence.evaluateWithMetadata(toLibraryTokens([ANY_TOKEN]), {}, options);
  });
  let best = Number.POSITIVE_INFINITY;
  for (let step = 0; step < MEASURED_STEPS; step++) {
    before();
    const started = performance.now();
    await Promise.all(streams.map((stream) => stream.next()));
    best = Math.min(best, performance.now() - started);
  }
  await Promise.all(streams.map((stream) => stream.return()));
  return best;
}

/** Measures how long the evaluation of a chunk of a prompt takes, in milliseconds. */
export async function measurePrefill(
  sequence: LlamaContextSequence,
  tokensMax: number,
): Promise<number> {
  const length = Math.min(MEASURED_PROMPT_TOKENS, tokensMax, sequence.contextSize - 1);
  const tokens = toLibraryTokens(Array.from({ length }, () => ANY_TOKEN));
  const started = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(tokens);
  return performance.now() - started;
}
