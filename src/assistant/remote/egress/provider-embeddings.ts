import { getMember } from "../../../base/openai-wire/json-members.ts";
import { parseEmbeddings } from "../../../base/openai-wire/parse-embeddings.ts";
import { parseJson } from "../../../base/openai-wire/response-errors.ts";
import { parseUsage } from "../../../base/openai-wire/usage.ts";
import type { EmbedAnswer, EmbedRequest } from "../../inference/service-port.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/**
 * Reads the answer of `/embeddings` and normalises the vectors to length 1. Throws the error that the answer reports,
 * and `bad_response` for an invalid answer.
 */
export function parseProviderEmbeddings(
  text: string,
  { texts }: EmbedRequest,
  errors: ProviderErrors,
): Pick<EmbedAnswer, "vectors" | "tokens"> {
  const body = parseJson(text, "the answer is not JSON", errors);
  const error = getMember(body, "error");
  if (error !== undefined && error !== null) throw errors.fromEnvelope(error);
  const found = parseEmbeddings(body, texts.length, errors);
  const total = parseUsage(getMember(body, "usage")).promptTokens ?? 0;
  return {
    vectors: found.map(({ vector }) => normalizeVector(vector, errors)),
    tokens: distributeTokens(total, texts),
  };
}

function normalizeVector(vector: Float32Array, errors: ProviderErrors): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  if (length === 0) throw errors.malformedResponse("the answer contains an embedding of length 0");
  return vector.map((number) => number / length);
}

/**
 * Distributes the total of tokens over the texts in proportion to their lengths, because providers report only the
 * total. The parts add up to the total.
 */
function distributeTokens(total: number, texts: readonly string[]): number[] {
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
