import { AssistantError } from "../assistant-error.ts";
import {
  isRemoteModel,
  type ModelRoutes,
  parseRemoteModelName,
  type RemoteModelName,
} from "../inference/routing/port.ts";

/** The models that can answer a turn, local and remote ones, in the order in which they are tried. */
export interface TurnRoute {
  /** The kind of the first candidate, which is tried first. */
  readonly kind: "local" | "remote";
  /** The first remote model among the candidates; undefined if there is none. */
  readonly remote: RemoteModelName | undefined;
  /**
   * The first local model among the candidates. It chooses the tools even if a remote model answers; undefined means
   * the default model.
   */
  readonly localModel: string | undefined;
}

export function resolveTurnRoute(routes: ModelRoutes, modelHint: string | undefined): TurnRoute {
  const models = routes.candidates(modelHint);
  const remote = models.find((model) => isRemoteModel(model));
  return {
    kind: isRemoteModel(models[0]) ? "remote" : "local",
    remote: remote === undefined ? undefined : parseRemoteModelName(remote),
    localModel: models.find((model) => !isRemoteModel(model)),
  };
}

/**
 * Checks the requested model. Throws `invalid_request` if it begins like the name of a remote model but is not a
 * valid one.
 */
export function checkModelHint(modelHint: string | undefined): void {
  if (modelHint === undefined || !isRemoteModel(modelHint)) return;
  if (parseRemoteModelName(modelHint) !== undefined) return;
  throw new AssistantError(
    "invalid_request",
    "model_hint begins with remote: and must be remote:<provider>:<model>",
    { param: "model_hint" },
  );
}
