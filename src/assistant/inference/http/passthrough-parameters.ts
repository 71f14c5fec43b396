import { isRemoteModel, type ModelRoutes } from "../routing/port.ts";
import type { PassthroughParameters, UnknownParameters } from "./unknown-parameters.ts";

/** A request for the InferenceService, and the names of the parameters that are ignored. */
export interface PassthroughRequest<Request> {
  readonly request: Request & { readonly passthrough?: PassthroughParameters };
  readonly unknown: readonly string[];
}

/**
 * Adds the parameters that only providers understand, if the request's model name can refer to a remote model. Added
 * parameters are not reported as ignored.
 */
export function addPassthrough<Request extends { readonly model: string | undefined }>(
  routes: ModelRoutes | undefined,
  request: Request,
  { passthrough: further, unknown }: UnknownParameters,
): PassthroughRequest<Request> {
  const isSent = routes?.candidates(request.model).some((model) => isRemoteModel(model)) ?? false;
  if (!isSent) return { request, unknown };
  return {
    request: { ...request, passthrough: further },
    unknown: unknown.filter((name) => !Object.hasOwn(further, name)),
  };
}
