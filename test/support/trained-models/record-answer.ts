import type { LlamaServer } from "./llama-server.ts";
import { ANSWER_TOKENS_MAX, type TextQuestion } from "./questions.ts";
import { readInPieces } from "./read-in-pieces.ts";
import type { RecordedAnswer, RecordedToken } from "./recorded-answers.ts";

/**
 * An answer ends before the first token whose probability is this close to that of the next one (as a difference of
 * logprobs), because another processor may round the other way there.
 */
const TIE = 0.1;
const ANSWER_TOKENS_MIN = 2;

interface ServerAnswer {
  readonly content: string;
  readonly stop_type: "eos" | "word" | "limit";
  /** The ids of all tokens, the end token included. */
  readonly tokens: readonly number[];
  /**
   * The tokens of the text. Tokens that leave a code point incomplete are missing, and the whole member may be missing
   * too.
   */
  readonly completion_probabilities?: readonly ServerToken[];
}

interface ServerToken {
  readonly id: number;
  readonly logprob: number;
  readonly top_logprobs: readonly {
    readonly id: number;
    readonly bytes: readonly number[];
    readonly logprob: number;
  }[];
}

/**
 * Returns the most likely answer to a question; undefined if the first tokens of two answers are almost equally likely.
 */
export async function recordAnswer(
  server: LlamaServer,
  question: TextQuestion,
): Promise<RecordedAnswer | undefined> {
  const { tokens: promptTokens } = await server.post<{ tokens: readonly number[] }>("/tokenize", {
    content: question.prompt,
    add_special: true,
    parse_special: true,
  });
  const request = { temperature: 0, n_probs: 2, stop: question.stop ?? [], return_tokens: true };
  let tokensMax = ANSWER_TOKENS_MAX;
  for (;;) {
    const answer = await readInPieces<ServerAnswer>(server, promptTokens, {
      ...request,
      n_predict: tokensMax,
    });
    const shorter = findSafeLength(answer);
    if (shorter === undefined) return toRecorded(question.id, promptTokens, tokensMax, answer);
    if (shorter < ANSWER_TOKENS_MIN)
      throw new Error(
        `rounding decides on the first tokens of ${question.id}; change the question`,
      );
    tokensMax = shorter;
  }
}

/**
 * Returns the length to which the answer must be shortened, so that it ends with a whole code point and before a token
 * that is almost as likely as another one. Returns undefined if the answer can stay as it is.
 */
function findSafeLength(answer: ServerAnswer): number | undefined {
  let at = -1;
  for (const { id, top_logprobs } of answer.completion_probabilities ?? []) {
    at = answer.tokens.indexOf(id, at + 1);
    const [first, second] = top_logprobs;
    if (first && second && first.logprob - second.logprob < TIE) return at;
  }
  return answer.content.endsWith("\ufffd") ? answer.tokens.length - 1 : undefined;
}

function toRecorded(
  id: string,
  promptTokens: readonly number[],
  tokensMax: number,
  answer: ServerAnswer,
): RecordedAnswer {
  const isEnded = answer.stop_type === "eos";
  const tokens = (answer.completion_probabilities ?? []).slice(0, isEnded ? -1 : undefined);
  return {
    id,
    promptTokens,
    tokensMax,
    tokens: tokens.map(toRecordedToken),
    text: answer.content,
    end: answer.stop_type,
  };
}

function toRecordedToken({ id, logprob, top_logprobs }: ServerToken): RecordedToken {
  const own = top_logprobs.find((token) => token.id === id);
  if (!own) throw new Error("the token of a greedy answer is not among the most likely ones");
  return {
    id,
    bytes: Buffer.from(own.bytes).toString("hex"),
    logprob: Number(logprob.toFixed(6)),
  };
}
