import { formatRemoteModelName } from "../../inference/routing/port.ts";
import type { ModelInfo } from "../../inference/service-port.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../inference/wire/json-members.ts";
import { parseJson } from "../../inference/wire/response-errors.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/** What fits into the `model` of a request, with the provider's name in front of it. */
const ID_CHARACTERS_MAX = 200;
/** The longest list there is has some thousands. */
const MODELS_MAX = 20_000;

export interface ListedModel {
  readonly id: string;
  readonly createdSeconds?: number | undefined;
  readonly contextTokens?: number | undefined;
}

/**
 * The answer of `GET /models`; some answer the list itself. Throws `bad_response` for what is no list. An id with
 * `bearer` in it is none.
 */
export function parseProviderModels(
  text: string,
  errors: ProviderErrors,
  bearer: string | undefined,
): ListedModel[] {
  const body = parseJson(text, "a document that is no JSON", errors);
  const list: readonly unknown[] | undefined = Array.isArray(body)
    ? body
    : (getArrayMember(body, "data") ?? getArrayMember(body, "models"));
  if (!list) throw errors.malformedResponse("a list of models without data");
  const found = list.slice(0, MODELS_MAX).map((item) => parseListedModel(item));
  const known = found.filter((model) => model !== undefined);
  const safe = known.filter(({ id }) => bearer === undefined || !id.includes(bearer));
  const byId = new Map(safe.map((model) => [model.id, model]));
  return [...byId.values()];
}

/** As it is told to clients. A provider does not say what a model is for; the ids of those that embed mostly do. */
export function toModelInfo(providerId: string, model: ListedModel): ModelInfo {
  return {
    id: formatRemoteModelName({ provider: providerId, model: model.id }),
    aliases: [],
    createdSeconds: model.createdSeconds ?? 0,
    kind: /embed/i.test(model.id) ? "embedding" : "chat",
    state: "idle",
    contextTokens: model.contextTokens,
    embeddingLength: undefined,
  };
}

function parseListedModel(item: unknown): ListedModel | undefined {
  const id = getStringMember(item, "id") ?? getStringMember(item, "name");
  // Nothing that would spoil a line of a terminal or of a log.
  if (id === undefined || id.length > ID_CHARACTERS_MAX || !/^[^\s\p{C}]+$/u.test(id))
    return undefined;
  return {
    id,
    createdSeconds: getCountMember(item, "created"),
    contextTokens:
      getCountMember(item, "context_length") ??
      getCountMember(item, "max_model_len") ??
      getCountMember(item, "context_window") ??
      getCountMember(getMember(item, "top_provider"), "context_length"),
  };
}
