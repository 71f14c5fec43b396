import type { ResolvedModel } from "../../../resources/model-status.ts";

export type { ResolvedFile, ResolvedModel } from "../../../resources/model-status.ts";

/**
 * The sources of models. `resolve` finds the files of a Model's source without downloading them. Throws
 * BerthErrors: `hub_unreachable` (no response, 5xx, 429: another attempt may succeed), `hub_denied` (gated,
 * private, a wrong token), `hub_not_found` (no such repository, revision or file; the message lists the
 * alternatives), `invalid_spec` (several files match, and the spec does not choose one).
 */
export interface ModelSources {
  resolve(request: SourceRequest, signal: AbortSignal): Promise<ResolvedModel>;
  /**
   * Returns the token for a download of `model`: `given` (the token of the spec), otherwise the machine's token for
   * the hub (HF_TOKEN), if the files are on this hub. Undefined if neither applies.
   */
  tokenFor(model: ResolvedModel, given: string | undefined): string | undefined;
}

export interface SourceRequest {
  /** `org/name` of a hub, the https URL of a GGUF file, or the path (or file: URL) of a file on this machine. */
  readonly source: string;
  readonly file: string | undefined;
  readonly quantization: string | undefined;
  readonly revision: string | undefined;
  readonly sha256: string | undefined;
  /**
   * The access token for the source. It is sent only to the origin of the source, never to the target of a redirect.
   */
  readonly token: string | undefined;
}
