import type { ModelInfo } from "../service-port.ts";
import { getArrayMember, getCountMember, getStringMember } from "../wire/json-members.ts";
import { malformedResponseError } from "./upstream-errors.ts";

const kinds = ["chat", "completion", "embedding"] as const;
const states = ["resident", "loading", "idle", "failed"] as const;

/** The answer of GET /v1/models. Throws AssistantError `engine_failed` for what is no list of models. */
export function parseUpstreamModels(body: unknown): ModelInfo[] {
  const data = getArrayMember(body, "data");
  if (!data) throw malformedResponseError("a list of models without data");
  return data.map((model) => parseUpstreamModel(model));
}

function parseUpstreamModel(model: unknown): ModelInfo {
  const id = getStringMember(model, "id");
  if (id === undefined || id === "") throw malformedResponseError("a model without an id");
  const [kind, state] = [getStringMember(model, "kind"), getStringMember(model, "state")];
  return {
    id,
    aliases: (getArrayMember(model, "aliases") ?? []).filter((name) => typeof name === "string"),
    createdSeconds: getCountMember(model, "created") ?? 0,
    kind: kinds.find((known) => known === kind) ?? "chat",
    state: states.find((known) => known === state) ?? "idle",
    failure: getStringMember(model, "error"),
    contextTokens: getCountMember(model, "context_length"),
    embeddingLength: getCountMember(model, "embedding_length"),
  };
}
