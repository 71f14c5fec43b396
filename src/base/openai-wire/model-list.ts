import { getArrayMember, getCountMember, getMember, getStringMember } from "./json-members.ts";

/** One model of `GET /models`. A member that the server left out, or that has another type, is undefined. */
export interface WireModel {
  readonly id: string | undefined;
  readonly aliases: readonly string[];
  readonly createdSeconds: number | undefined;
  readonly contextTokens: number | undefined;
  readonly embeddingLength: number | undefined;
  /**
   * The members `kind`, `state` and `error` are Berth's additions to the OpenAI API, so other servers do not send them.
   */
  readonly kind: string | undefined;
  readonly state: string | undefined;
  readonly error: string | undefined;
}

/**
 * Reads the answer of `GET /models`; undefined if it is not a list of models. Some servers answer with the list
 * itself instead of an object that contains it.
 */
export function parseModelList(body: unknown): readonly unknown[] | undefined {
  return Array.isArray(body)
    ? body
    : (getArrayMember(body, "data") ?? getArrayMember(body, "models"));
}

/** Reads one item of the list of models. */
export function parseWireModel(item: unknown): WireModel {
  return {
    id: getStringMember(item, "id") ?? getStringMember(item, "name"),
    aliases: (getArrayMember(item, "aliases") ?? []).filter((name) => typeof name === "string"),
    createdSeconds: getCountMember(item, "created"),
    contextTokens:
      getCountMember(item, "context_length") ??
      getCountMember(item, "max_model_len") ??
      getCountMember(item, "context_window") ??
      getCountMember(getMember(item, "top_provider"), "context_length"),
    embeddingLength: getCountMember(item, "embedding_length"),
    kind: getStringMember(item, "kind"),
    state: getStringMember(item, "state"),
    error: getStringMember(item, "error"),
  };
}
