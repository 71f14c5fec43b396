import {
  getCountMember,
  getMember,
  getStringMember,
} from "../../../base/openai-wire/json-members.ts";
import { parseEmbeddings, type WireEmbedding } from "../../../base/openai-wire/parse-embeddings.ts";
import type { EmbedRequest } from "../service-port.ts";
import { malformedResponseError, upstreamErrors } from "./upstream-errors.ts";

export interface UpstreamEmbeddings {
  readonly model: string;
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}

/** Reads the answer of POST /v1/embeddings. Throws AssistantError `engine_failed` if it is none. */
export function parseUpstreamEmbeddings(body: unknown, request: EmbedRequest): UpstreamEmbeddings {
  const model = getStringMember(body, "model");
  if (model === undefined) throw malformedResponseError("embeddings without a model");
  const all = parseEmbeddings(body, request.texts.length, upstreamErrors);
  return { model, vectors: all.map(({ vector }) => vector), tokens: getTokenCounts(body, all) };
}

/** An older system instance only sends the sum of all counts, which is assigned to the first text. */
function getTokenCounts(body: unknown, all: readonly WireEmbedding[]): number[] {
  const total = getCountMember(getMember(body, "usage"), "prompt_tokens") ?? 0;
  return all.map(
    ({ item }, index) => getCountMember(item, "svc_tokens") ?? (index === 0 ? total : 0),
  );
}
