import type { ResolvedModel } from "../../../resources/model-status.ts";

export type { ResolvedFile, ResolvedModel } from "../../../resources/model-status.ts";

/**
 * Where models come from. `resolve` finds out what a Model's source stands for, without fetching it.
 * Errors are BerthErrors: `hub_unreachable` (no answer, 5xx, 429: worth another try), `hub_denied` (gated,
 * private, a wrong token), `hub_not_found` (no such repository, revision or file; the message names what
 * there is), `invalid_spec` (several files fit, and nothing says which).
 */
export interface ModelSources {
  resolve(request: SourceRequest, signal: AbortSignal): Promise<ResolvedModel>;
  /**
   * The token that a download of `model` is asked for with: `given`, that of the spec, where there is one; else
   * the machine's own for the hub (HF_TOKEN), for files that this hub gives; undefined for all others.
   */
  tokenFor(model: ResolvedModel, given: string | undefined): string | undefined;
}

export interface SourceRequest {
  /** `org/name` of a hub, an https URL of a GGUF file, or the path (or file: URL) of one on this machine. */
  readonly source: string;
  readonly file: string | undefined;
  readonly quantization: string | undefined;
  readonly revision: string | undefined;
  readonly sha256: string | undefined;
  /** Sent to the source's own origin only, never to where it redirects. */
  readonly token: string | undefined;
}
