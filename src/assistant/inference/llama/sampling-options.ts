import {
  type Token as LibraryToken,
  type LlamaModel,
  type SequenceEvaluateOptions,
  TokenBias,
} from "node-llama-cpp";
import { AssistantError } from "../../assistant-error.ts";
import type { Sampling } from "../runner.ts";
import { toLibraryTokens } from "./llama-library.ts";

/** Penalties look at so many tokens, of the prompt and the answer alike: llama-server's own choice. */
export const PENALTY_TOKENS = 64;
/** OpenAI's scale ends there, and means that the token never comes. */
const BANNING_BIAS = -100;

/**
 * How the library has to choose tokens; everything that it has a default for is said, since its defaults
 * are not ours. `recent` is asked before each step. Throws AssistantError for a bias that it cannot keep.
 */
export function buildSamplingOptions(
  model: LlamaModel,
  sampling: Sampling,
  seed: number,
  recent: () => readonly number[],
): SequenceEvaluateOptions {
  const { repeatPenalty, presencePenalty, frequencyPenalty } = sampling;
  const penalised = repeatPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
  const tokenBias = readBias(model, sampling.logitBias);
  return {
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    minP: sampling.minP,
    seed,
    yieldEogToken: false,
    ...(penalised && {
      repeatPenalty: {
        punishTokens: () => toLibraryTokens(recent()),
        maxPunishTokens: PENALTY_TOKENS,
        penalty: repeatPenalty,
        presencePenalty,
        frequencyPenalty,
      },
    }),
    ...(tokenBias && { tokenBias }),
  };
}

/** The library takes seeds of 32 bits and turns negative ones into 0. */
export function deriveLibrarySeed(seed: number, suspensions: number): number {
  // After a suspension the state of the random numbers is lost; the same start would repeat them.
  return (Math.trunc(seed) + Math.imul(suspensions, 0x9e3779b9)) >>> 0;
}

function readBias(
  model: LlamaModel,
  biases: Readonly<Record<string, number>>,
): TokenBias | undefined {
  const entries = Object.entries(biases);
  if (entries.length === 0) return undefined;
  const words = model.fileInfo.metadata.tokenizer?.ggml?.tokens?.length ?? 0;
  const tokenBias = new TokenBias(model.tokenizer);
  for (const [key, bias] of entries) {
    const token = readToken(key, words);
    if (model.isEogToken(token)) {
      throw new AssistantError(
        "unsupported_parameter",
        `token ${key} ends an answer, and cannot be given a bias; leave it out, or set max_tokens`,
        { param: `logit_bias.${key}` },
      );
    }
    tokenBias.set(token, bias <= BANNING_BIAS ? "never" : { logit: bias });
  }
  return tokenBias;
}

function readToken(key: string, words: number): LibraryToken {
  const [token] = toLibraryTokens([/^\d{1,9}$/.test(key) ? Number(key) : -1]);
  if (token === undefined || token >= words) {
    throw new AssistantError(
      "invalid_request",
      `"${key.slice(0, 32)}" is no token of this model, which has the tokens 0 to ${words - 1}`,
      { param: "logit_bias" },
    );
  }
  return token;
}
