import type { EmbedRequest } from "../service-port.ts";
import { getCountMember, getMember, getStringMember } from "../wire/json-members.ts";
import { parseEmbeddings, type WireEmbedding } from "../wire/parse-embeddings.ts";
import { malformedResponseError, upstreamErrors } from "./upstream-errors.ts";

export interface UpstreamEmbeddings {
  readonly model: string;
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}

/** The answer of POST /v1/embeddings. Throws AssistantError `engine_failed` where it is no such answer. */
export function parseUpstreamEmbeddings(body: unknown, request: EmbedRequest): UpstreamEmbeddings {
  const model = getStringMember(body, "model");
  if (model === undefined) throw malformedResponseError("embeddings of no model");
  const all = parseEmbeddings(body, request.texts.length, upstreamErrors);
  return { model, vectors: all.map(({ vector }) => vector), tokens: getTokenCounts(body, all) };
}

/** One that does not tell them for each text tells their sum: it is put on the first. */
function getTokenCounts(body: unknown, all: readonly WireEmbedding[]): number[] {
  const total = getCountMember(getMember(body, "usage"), "prompt_tokens") ?? 0;
  return all.map(
    ({ item }, index) => getCountMember(item, "svc_tokens") ?? (index === 0 ? total : 0),
  );
}
