import { isRemoteModel, type ModelRoutes } from "../routing/port.ts";
import type { PassthroughParameters, UnknownParameters } from "./unknown-parameters.ts";

/** The request as the service gets it, and the names of what nobody does anything with. */
export interface PassthroughRequest<Request> {
  readonly request: Request & { readonly passthrough?: PassthroughParameters };
  readonly unknown: readonly string[];
}

/**
 * What means nothing to a local model may to a provider: it goes along for a name behind which any model is
 * remote, and is not told as ignored then.
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
