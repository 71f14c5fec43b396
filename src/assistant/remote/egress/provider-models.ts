import { parseModelList, parseWireModel } from "../../../base/openai-wire/model-list.ts";
import { parseJson } from "../../../base/openai-wire/response-errors.ts";
import { formatRemoteModelName } from "../../inference/routing/port.ts";
import type { ModelInfo } from "../../inference/service-port.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/**
 * The largest length of a model's id. With the provider's name in front, such an id still fits into the `model` of a
 * request.
 */
const ID_CHARACTERS_MAX = 200;
/** The largest number of models in a list. The longest known list has a few thousand models. */
const MODELS_MAX = 20_000;

export interface ListedModel {
  readonly id: string;
  readonly createdSeconds?: number | undefined;
  readonly contextTokens?: number | undefined;
}

/**
 * Reads the answer of `GET /models`, without duplicates. Throws `bad_response` if the answer contains no list. Leaves
 * out ids that have unprintable characters or are too long, and ids that contain the value of `bearer`, because the
 * provider's key must not be shown.
 */
export function parseProviderModels(
  text: string,
  errors: ProviderErrors,
  bearer: string | undefined,
): ListedModel[] {
  const body = parseJson(text, "the answer is not JSON", errors);
  const list = parseModelList(body);
  if (!list) throw errors.malformedResponse("the answer contains no list of models");
  const found = list.slice(0, MODELS_MAX).map((item) => parseListedModel(item));
  const known = found.filter((model) => model !== undefined);
  const safe = known.filter(({ id }) => bearer === undefined || !id.includes(bearer));
  const byId = new Map(safe.map((model) => [model.id, model]));
  return [...byId.values()];
}

/**
 * Converts a listed model to the form that clients receive. Providers do not say what a model is for, so a model with
 * "embed" in its id counts as an embedding model.
 */
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
  const { id, createdSeconds, contextTokens } = parseWireModel(item);
  // An id with control characters or spaces is left out, because it would garble a line of a terminal or of a log.
  if (id === undefined || id.length > ID_CHARACTERS_MAX || !/^[^\s\p{C}]+$/u.test(id))
    return undefined;
  return { id, createdSeconds, contextTokens };
}
