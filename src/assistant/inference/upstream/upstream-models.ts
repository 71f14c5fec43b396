import { parseModelList, parseWireModel } from "../../../base/openai-wire/model-list.ts";
import type { ModelInfo } from "../service-port.ts";
import { malformedResponseError } from "./upstream-errors.ts";

const kinds = ["chat", "completion", "embedding"] as const;
const states = ["resident", "loading", "idle", "failed"] as const;

/** Reads the answer of GET /v1/models. Throws AssistantError `engine_failed` if it is no list of models. */
export function parseUpstreamModels(body: unknown): ModelInfo[] {
  const list = parseModelList(body);
  if (!list) throw malformedResponseError("a list of models without data");
  return list.map((item) => parseUpstreamModel(item));
}

function parseUpstreamModel(item: unknown): ModelInfo {
  const { id, aliases, createdSeconds, contextTokens, embeddingLength, ...rest } =
    parseWireModel(item);
  if (id === undefined || id === "") throw malformedResponseError("a model without an id");
  return {
    id,
    aliases,
    createdSeconds: createdSeconds ?? 0,
    kind: kinds.find((kind) => kind === rest.kind) ?? "chat",
    state: states.find((state) => state === rest.state) ?? "idle",
    failure: rest.error,
    contextTokens,
    embeddingLength,
  };
}
