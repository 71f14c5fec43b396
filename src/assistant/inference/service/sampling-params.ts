import type { Sampling } from "../runner.ts";
import type { SamplingParams } from "../service-port.ts";

/** Of llama-server, which people who come from there are used to. */
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
 * What a client wished for, completed. The choices of one request differ by their seed, and so does a
 * second attempt; with a seed given all of it can be had again.
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
    // The 32-bit golden ratio keeps neighbouring choices apart.
    seed: (((seed + options.choice) >>> 0) + Math.imul(options.attempt, 0x9e3779b9)) >>> 0,
    repeatPenalty: params.repeatPenalty ?? defaults.repeatPenalty,
    presencePenalty: params.presencePenalty ?? defaults.presencePenalty,
    frequencyPenalty: params.frequencyPenalty ?? defaults.frequencyPenalty,
    logitBias: params.logitBias ?? {},
    logprobs: params.logprobs,
    grammar: options.grammar?.gbnf,
    // A grammar whose shortest text is none at all lets a model say what it likes.
    grammarExample: options.grammar?.example || undefined,
    showControlTokens: options.showControlTokens,
  };
}
