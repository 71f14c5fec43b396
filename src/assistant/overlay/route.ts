import { AssistantError } from "../errors.ts";
import {
  isRemoteModel,
  type ModelRoutes,
  type RemoteModelName,
  remoteModelName,
} from "../inference/routing/port.ts";

/** Where a turn's answer comes from. */
export interface Route {
  /** Of the model that is tried first. */
  readonly kind: "local" | "remote";
  /** The first remote model that may be tried. */
  readonly remote: RemoteModelName | undefined;
  /** The first local one, which also chooses tools; undefined: the default. */
  readonly localModel: string | undefined;
}

export function routeOf(routes: ModelRoutes, modelHint: string | undefined): Route {
  const models = routes.candidates(modelHint);
  const remote = models.find((model) => isRemoteModel(model));
  return {
    kind: isRemoteModel(models[0]) ? "remote" : "local",
    remote: remote === undefined ? undefined : remoteModelName(remote),
    localModel: models.find((model) => !isRemoteModel(model)),
  };
}

/** Throws `invalid_request` for what begins as a remote model's name and is none. */
export function checkModelHint(modelHint: string | undefined): void {
  if (modelHint === undefined || !isRemoteModel(modelHint)) return;
  if (remoteModelName(modelHint) !== undefined) return;
  throw new AssistantError(
    "invalid_request",
    "model_hint begins with remote: and has to be remote:<provider>:<model>",
    { param: "model_hint" },
  );
}
