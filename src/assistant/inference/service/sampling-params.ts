import type { Sampling } from "../runner.ts";
import type { SamplingParams } from "../service-port.ts";

/** The defaults of llama-server, which many users know. */
const defaults = {
  temperature: 0.8,
  topP: 0.95,
  topK: 40,
  minP: 0.05,
  repeatPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
} as const;

/** Seeds are 32 bits wide in llama.cpp. */
const SEED_COUNT = 2 ** 32;

/**
 * Completes a client's sampling parameters with defaults. The choices of one request have different seeds, and a second
 * attempt at a choice has another seed than the first. If the client gives a seed, all others derive from it, so that
 * the request is reproducible.
 */
export function completeSampling(
  params: SamplingParams,
  options: {
    readonly choice: number;
    readonly attempt: number;
    readonly grammar: { readonly gbnf: string; readonly example: string } | undefined;
    readonly showControlTokens: boolean;
    readonly random: () => number;
  },
): Sampling {
  const seed = params.seed ?? Math.floor(options.random() * SEED_COUNT);
  return {
    temperature: params.temperature ?? defaults.temperature,
    topP: params.topP ?? defaults.topP,
    topK: params.topK ?? defaults.topK,
    minP: params.minP ?? defaults.minP,
    // If the first answer is invalid, a second attempt uses another seed. The 32-bit golden ratio keeps the two seeds
    // far apart.
    seed: (((seed + options.choice) >>> 0) + Math.imul(options.attempt, 0x9e3779b9)) >>> 0,
    repeatPenalty: params.repeatPenalty ?? defaults.repeatPenalty,
    presencePenalty: params.presencePenalty ?? defaults.presencePenalty,
    frequencyPenalty: params.frequencyPenalty ?? defaults.frequencyPenalty,
    logitBias: params.logitBias ?? {},
    logprobs: params.logprobs,
    grammar: options.grammar?.gbnf,
    // An empty example is omitted, so that the stub engine, which answers with the example, reports an error instead.
    grammarExample: options.grammar?.example || undefined,
    showControlTokens: options.showControlTokens,
  };
}
