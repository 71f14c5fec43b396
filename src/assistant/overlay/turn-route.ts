import { AssistantError } from "../assistant-error.ts";
import {
  isRemoteModel,
  type ModelRoutes,
  parseRemoteModelName,
  type RemoteModelName,
} from "../inference/routing/port.ts";

/** Where a turn's answer comes from. */
export interface TurnRoute {
  /** Of the model that is tried first. */
  readonly kind: "local" | "remote";
  /** The first remote model that may be tried. */
  readonly remote: RemoteModelName | undefined;
  /** The first local one, which also chooses tools; undefined: the default. */
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

/** Throws `invalid_request` for what begins as a remote model's name and is none. */
export function checkModelHint(modelHint: string | undefined): void {
  if (modelHint === undefined || !isRemoteModel(modelHint)) return;
  if (parseRemoteModelName(modelHint) !== undefined) return;
  throw new AssistantError(
    "invalid_request",
    "model_hint begins with remote: and has to be remote:<provider>:<model>",
    { param: "model_hint" },
  );
}
