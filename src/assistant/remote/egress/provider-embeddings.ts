import type { EmbedAnswer, EmbedRequest } from "../../inference/service-port.ts";
import { getMember } from "../../inference/wire/json-members.ts";
import { parseEmbeddings } from "../../inference/wire/parse-embeddings.ts";
import { parseJson } from "../../inference/wire/response-errors.ts";
import { parseUsage } from "../../inference/wire/usage.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/** The answer of `/embeddings`, of length 1 each. Throws what it says went wrong, and `bad_response`. */
export function parseProviderEmbeddings(
  text: string,
  { texts }: EmbedRequest,
  errors: ProviderErrors,
): Pick<EmbedAnswer, "vectors" | "tokens"> {
  const body = parseJson(text, "a document that is no JSON", errors);
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
  if (length === 0) throw errors.malformedResponse("an embedding without a direction");
  return vector.map((number) => number / length);
}

/** Providers tell the tokens of all texts: each has the part that its length is, and the parts add up. */
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
