import { isRemoteModel, type ModelRoutes } from "../routing/port.ts";
import type { FurtherParameters, StrayParameters } from "./parameters.ts";

/** The request as the service gets it, and the names of what nobody does anything with. */
export interface SentAlong<Request> {
  readonly request: Request & { readonly further?: FurtherParameters };
  readonly unknown: readonly string[];
}

/**
 * What means nothing to a local model may to a provider: it goes along for a name behind which any model is
 * remote, and is not told as ignored then.
 */
export function sentAlong<Request extends { readonly model: string | undefined }>(
  routes: ModelRoutes | undefined,
  request: Request,
  { further, unknown }: StrayParameters,
): SentAlong<Request> {
  const isSent = routes?.candidates(request.model).some((model) => isRemoteModel(model)) ?? false;
  if (!isSent) return { request, unknown };
  return {
    request: { ...request, further },
    unknown: unknown.filter((name) => !Object.hasOwn(further, name)),
  };
}
