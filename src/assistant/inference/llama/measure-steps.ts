import type { LlamaContextSequence } from "node-llama-cpp";
import { toLibraryTokens } from "./llama-library.ts";

/** Any token will do: the duration does not depend on it. */
const ANY_TOKEN = 0;
const MEASURED_STEPS = 3;
const MEASURED_PROMPT_TOKENS = 64;

/** Returns the duration of the fastest of several common steps in milliseconds; calls `before` each time. */
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

/** Measures a chunk of a prompt, in milliseconds. */
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
