import type { Clock } from "../../../base/clock.ts";
import { InvalidSpecError } from "../../../base/errors.ts";
import { type ModelSource, parseModelSource } from "../../../resources/model-source.ts";
import { resolveRepository } from "./hub-repository.ts";
import { resolveLocalFile } from "./local-file.ts";
import { resolveUrl } from "./plain-url.ts";
import type { ModelSources, ResolvedFile, ResolvedModel, SourceRequest } from "./port.ts";

export interface ModelSourceResolverOptions {
  /** The base URL of the hub, such as the value of HF_ENDPOINT; the URL may contain a path. */
  readonly endpoint: string;
  /** The token in HF_TOKEN. It is used for repositories of the hub if the request has no token. */
  readonly token: string | undefined;
  readonly clock: Clock;
  /** The time limit of each network request; default 30 s. */
  readonly limitMs?: number;
}

/**
 * The default time limit of a request. A connection and a listing take about a second, but a captive portal may never
 * answer.
 */
const LIMIT_MS = 30_000;

/**
 * Resolves repositories of one hub, plain URLs, and files of this machine. It keeps no connections and no state. When
 * it follows a redirect, it never sends a token to another origin.
 */
export class ModelSourceResolver implements ModelSources {
  readonly #endpoint: URL;
  readonly #token: string | undefined;
  readonly #clock: Clock;
  readonly #limitMs: number;

  constructor(options: ModelSourceResolverOptions) {
    this.#endpoint = new URL(options.endpoint);
    // A token that was read from a file may end with a newline, which is removed.
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
 * Returns the repository that a web page of a hub shows, with the revision and the file if the page is that of a file.
 * Users copy such URLs from the browser. (Unlike a plain URL, a repository reports the digests of its files.) Undefined
 * for any other URL.
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
  // A private hub may serve plain files in addition to repositories, so the URL of a `.gguf` file is not that of a
  // repository.
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
