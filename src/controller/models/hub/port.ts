/**
 * Where models come from. `resolve` finds out what a Model's source stands for, without fetching it.
 * Errors are BerthErrors: `hub_unreachable` (no answer, 5xx, 429: worth another try), `hub_denied` (gated,
 * private, a wrong token), `hub_not_found` (no such repository, revision or file; the message names what
 * there is), `invalid_spec` (several files fit, and nothing says which).
 */
export interface ModelSources {
  resolve(request: SourceRequest, signal: AbortSignal): Promise<ResolvedModel>;
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

export interface ResolvedModel {
  /** Stays the same for the same bytes: names the folder in which the files stand under their own names. */
  readonly key: string;
  readonly commit: string | null;
  /** As the file's name tells it: `Q4_K_M`; null where it does not. */
  readonly quantization: string | null;
  /** The first is the one to load; the parts of a split model in their order. */
  readonly files: readonly ResolvedFile[];
}

export interface ResolvedFile {
  /** Below the repository's root, or the last part of a URL or path. */
  readonly name: string;
  readonly sizeBytes: number | null;
  /** Of the hub's LFS object, or of the spec; null where nobody names one. */
  readonly sha256: string | null;
  /** git's SHA-1 of a file that is not in LFS; null otherwise. */
  readonly gitBlob: string | null;
  /** Strong entity tag that the source gave; null where it gave none. */
  readonly etag: string | null;
  readonly location:
    | { readonly type: "url"; readonly url: string }
    /** Stays where it is; nothing is copied. */
    | { readonly type: "local"; readonly path: string };
}
