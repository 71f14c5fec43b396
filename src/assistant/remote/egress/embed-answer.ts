import type { EmbedAnswer, EmbedRequest } from "../../inference/service-port.ts";
import { embeddingsOf } from "../../inference/wire/embeddings.ts";
import { usageOf } from "../../inference/wire/usage.ts";
import { member } from "../../inference/wire/wire-value.ts";
import { parsedJson } from "../../inference/wire/wire-words.ts";
import type { ProviderWords } from "./provider-words.ts";

/** The answer of `/embeddings`, of length 1 each. Throws what it says went wrong, and `bad_response`. */
export function embedAnswer(
  text: string,
  { texts }: EmbedRequest,
  words: ProviderWords,
): Pick<EmbedAnswer, "vectors" | "tokens"> {
  const body = parsedJson(text, "a document that is no JSON", words);
  const error = member(body, "error");
  if (error !== undefined && error !== null) throw words.errorOf(error);
  const found = embeddingsOf(body, texts.length, words);
  const total = usageOf(member(body, "usage")).promptTokens ?? 0;
  return {
    vectors: found.map(({ vector }) => unitVector(vector, words)),
    tokens: tokensOfEach(total, texts),
  };
}

function unitVector(vector: Float32Array, words: ProviderWords): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  if (length === 0) throw words.notUnderstood("an embedding without a direction");
  return vector.map((number) => number / length);
}

/** Providers tell the tokens of all texts: each has the part that its length is, and the parts add up. */
function tokensOfEach(total: number, texts: readonly string[]): number[] {
  const characters = texts.reduce((sum, text) => sum + text.length, 0);
  let seen = 0;
  let given = 0;
  return texts.map((text) => {
    seen += text.length;
    const upToHere = Math.round((total * seen) / characters);
    const own = upToHere - given;
    given = upToHere;
    return own;
  });
}
