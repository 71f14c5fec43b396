import type { Clock } from "../../../base/clock.ts";
import { InvalidSpecError } from "../../../base/errors.ts";
import { type ModelSource, parseModelSource } from "../../../resources/model-source.ts";
import { resolveRepository } from "./hub-repository.ts";
import { resolveLocalFile } from "./local-file.ts";
import { resolveUrl } from "./plain-url.ts";
import type { ModelSources, ResolvedFile, ResolvedModel, SourceRequest } from "./port.ts";

export interface ModelSourceResolverOptions {
  /** Of the hub, such as HF_ENDPOINT; it may have a path. */
  readonly endpoint: string;
  /** Of HF_TOKEN: for repositories of the hub whose request brings none. */
  readonly token: string | undefined;
  readonly clock: Clock;
  /** For each request over the network; default 30 s. */
  readonly limitMs?: number;
}

/** Connecting to the hub and its listing take a second; a portal that swallows everything takes for ever. */
const LIMIT_MS = 30_000;

/**
 * The adapter of `ModelSources`: repositories of one hub, plain URLs, and files of this machine. It keeps no
 * connection and no state; a redirect never takes a token to another origin.
 */
export class ModelSourceResolver implements ModelSources {
  readonly #endpoint: URL;
  readonly #token: string | undefined;
  readonly #clock: Clock;
  readonly #limitMs: number;

  constructor(options: ModelSourceResolverOptions) {
    this.#endpoint = new URL(options.endpoint);
    // Often read from a file, whose line ends.
    this.#token = options.token?.trim() || undefined;
    this.#clock = options.clock;
    this.#limitMs = options.limitMs ?? LIMIT_MS;
  }

  async resolve(request: SourceRequest, signal: AbortSignal): Promise<ResolvedModel> {
    signal.throwIfAborted();
    const source = parseSource(request.source);
    if (source.type === "local") return await resolveLocalFile({ ...request, path: source.path });
    if (source.type === "repository")
      return await this.#resolveRepository({ ...request, id: source.id }, signal);
    const inHub = parseRepositoryUrl(source.url, this.#endpoint);
    if (inHub) return await this.#resolveRepository({ ...request, ...inHub }, signal);
    const access = { limitMs: this.#limitMs, now: () => this.#clock.now() };
    return await resolveUrl(access, { ...request, url: source.url }, signal);
  }

  tokenFor(model: ResolvedModel, given: string | undefined): string | undefined {
    const isHubs = ({ location }: ResolvedFile) =>
      location.type === "url" && new URL(location.url).origin === this.#endpoint.origin;
    return given ?? (model.files.every(isHubs) ? this.#token : undefined);
  }

  async #resolveRepository(
    request: SourceRequest & { readonly id: string },
    signal: AbortSignal,
  ): Promise<ResolvedModel> {
    const hub = {
      endpoint: this.#endpoint,
      limitMs: this.#limitMs,
      now: () => this.#clock.now(),
    };
    return await resolveRepository(
      hub,
      { ...request, token: request.token ?? this.#token },
      signal,
    );
  }
}

function parseSource(text: string): ModelSource {
  const parsed = parseModelSource(text);
  if ("source" in parsed) return parsed.source;
  throw new InvalidSpecError(`source ${parsed.problem}`, [
    { path: "/spec/source", message: parsed.problem },
  ]);
}

/**
 * The repository that an address of the hub's own pages is about: people copy them from the browser. As a
 * repository its files have digests, and /blob/, which is a page, leads to the file.
 */
function parseRepositoryUrl(
  url: URL,
  endpoint: URL,
): { readonly id: string; readonly revision?: string; readonly file?: string } | undefined {
  const root = endpoint.pathname.replace(/\/*$/, "/");
  if (url.origin !== endpoint.origin || !url.pathname.startsWith(root)) return undefined;
  const path = url.pathname.slice(root.length).replace(/\/$/, "");
  const [, id = "", , revision, file] =
    /^([^/]+\/[^/]+)(\/(?:resolve|blob)\/([^/]+)\/(.+))?$/.exec(path) ?? [];
  // Files may stand beside the repositories of a hub of one's own.
  if (/\.gguf$/i.test(id)) return undefined;
  const parsed = parseModelSource(id);
  if (!("source" in parsed) || parsed.source.type !== "repository") return undefined;
  if (revision === undefined || file === undefined)
    return path === id ? { id: parsed.source.id } : undefined;
  try {
    return {
      id: parsed.source.id,
      revision: decodeURIComponent(revision),
      file: decodeURIComponent(file),
    };
  } catch {
    return undefined;
  }
}
