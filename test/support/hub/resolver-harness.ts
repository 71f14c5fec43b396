import { systemClock } from "../../../src/base/clock.ts";
import { BerthError } from "../../../src/base/errors.ts";
import { ModelSourceResolver } from "../../../src/controller/models/hub/model-source-resolver.ts";
import type { ResolvedModel, SourceRequest } from "../../../src/controller/models/hub/port.ts";

export interface ResolverHarness {
  readonly resolve: (
    request: Partial<SourceRequest>,
    signal?: AbortSignal,
  ) => Promise<ResolvedModel>;
  /**
   * Returns the BerthError with which a resolution fails. Throws if the resolution succeeds or throws another error.
   */
  readonly refusal: (request: Partial<SourceRequest>) => Promise<BerthError>;
}

/** Creates a `ModelSourceResolver` for the hub at `endpoint`. Fields that a test omits in a request get defaults. */
export function createResolverHarness(
  endpoint: string,
  options: { readonly token?: string; readonly limitMs?: number } = {},
): ResolverHarness {
  const resolver = new ModelSourceResolver({
    endpoint,
    token: options.token,
    clock: systemClock,
    limitMs: options.limitMs ?? 10_000,
  });
  const resolve: ResolverHarness["resolve"] = (request, signal = new AbortController().signal) =>
    resolver.resolve({ ...defaultSourceRequest, ...request }, signal);
  return {
    resolve,
    async refusal(request) {
      const model = await resolve(request).catch((error: unknown) => {
        if (error instanceof BerthError) return error;
        throw error;
      });
      if (model instanceof BerthError) return model;
      throw new Error(`it came to ${JSON.stringify(model)}`);
    },
  };
}

export const defaultSourceRequest: SourceRequest = {
  source: "org/name",
  file: undefined,
  quantization: undefined,
  revision: undefined,
  sha256: undefined,
  token: undefined,
};
