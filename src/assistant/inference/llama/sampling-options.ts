import {
  type Token as LibraryToken,
  type LlamaModel,
  type SequenceEvaluateOptions,
  TokenBias,
} from "node-llama-cpp";
import { AssistantError } from "../../assistant-error.ts";
import type { Sampling } from "../runner.ts";
import { toLibraryTokens } from "./llama-library.ts";

/** The number of latest tokens of prompt and answer to which penalties apply, as by default in llama-server. */
export const PENALTY_TOKENS = 64;
/** The lower end of OpenAI's scale, at which a token is never chosen. */
const BANNING_BIAS = -100;
/**
 * The logit that is added to a banned token if there is a grammar. It is chosen only where the grammar permits nothing
 * else: if no token were left, llama.cpp would choose one that the grammar does not accept, and fail.
 */
const BANNED_LOGIT = -1e6;

/**
 * Converts sampling parameters into node-llama-cpp's options and sets every one, because its defaults differ from
 * Berth's. `recent` is called before each decoding step. Throws AssistantError for an unsupported bias.
 */
export function buildSamplingOptions(
  model: LlamaModel,
  sampling: Sampling,
  seed: number,
  recent: () => readonly number[],
): SequenceEvaluateOptions {
  const { repeatPenalty, presencePenalty, frequencyPenalty } = sampling;
  const penalised = repeatPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
  const banned = sampling.grammar === undefined ? "never" : { logit: BANNED_LOGIT };
  const tokenBias = readBias(model, sampling.logitBias, banned);
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

/** Derives an unsigned 32-bit seed, because node-llama-cpp turns negative seeds into 0. */
export function deriveLibrarySeed(seed: number, suspensions: number): number {
  // A suspension loses the state of the random number generator. A new generator with the same seed would repeat the
  // numbers of the old one, so each suspension changes the seed.
  return (Math.trunc(seed) + Math.imul(suspensions, 0x9e3779b9)) >>> 0;
}

function readBias(
  model: LlamaModel,
  biases: Readonly<Record<string, number>>,
  banned: "never" | { readonly logit: number },
): TokenBias | undefined {
  const entries = Object.entries(biases);
  if (entries.length === 0) return undefined;
  const vocabularySize = model.fileInfo.metadata.tokenizer?.ggml?.tokens?.length ?? 0;
  const tokenBias = new TokenBias(model.tokenizer);
  for (const [key, bias] of entries) {
    const token = readToken(key, vocabularySize);
    if (model.isEogToken(token)) {
      throw new AssistantError(
        "unsupported_parameter",
        `token ${key} ends an answer and cannot have a bias; leave it out, or set max_tokens`,
        { param: `logit_bias.${key}` },
      );
    }
    tokenBias.set(token, bias <= BANNING_BIAS ? banned : { logit: bias });
  }
  return tokenBias;
}

function readToken(key: string, vocabularySize: number): LibraryToken {
  const [token] = toLibraryTokens([/^\d{1,9}$/.test(key) ? Number(key) : -1]);
  if (token === undefined || token >= vocabularySize) {
    throw new AssistantError(
      "invalid_request",
      `"${key.slice(0, 32)}" is not a token of this model, which has the tokens 0 to ${vocabularySize - 1}`,
      { param: "logit_bias" },
    );
  }
  return token;
}
