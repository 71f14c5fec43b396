import { BerthError } from "../../../base/errors.ts";
import { parseModelSource } from "../../../resources/model-source.ts";
import { chooseFiles } from "./choose-files.ts";
import { hubUnreachableError } from "./hub-errors.ts";
import { type HubQuery, toHubError } from "./hub-refusal.ts";
import { computeContentKey } from "./model-key.ts";
import type { ResolvedFile, ResolvedModel } from "./port.ts";
import { parseRepositoryListing, type RepositoryListing } from "./repository-listing.ts";
import { type HttpResponse, sendHttpRequest } from "./source-http.ts";

export interface RepositoryRequest {
  /** The repository `org/name`. */
  readonly id: string;
  readonly file: string | undefined;
  readonly quantization: string | undefined;
  readonly revision: string | undefined;
  readonly sha256: string | undefined;
  readonly token: string | undefined;
}

export interface HubEndpoint {
  readonly endpoint: URL;
  readonly limitMs: number;
  readonly now: () => number;
}

/** The limit of a listing, which is enough for thousands of files with digests. A usual listing has a few kilobytes. */
const LISTING_BYTES_MAX = 64 * 1024 * 1024;

/** Resolves a repository to a commit and the files of one model with their digests. */
export async function resolveRepository(
  hub: HubEndpoint,
  request: RepositoryRequest,
  signal: AbortSignal,
): Promise<ResolvedModel> {
  const listing = await fetchListing(hub, request, signal);
  const id = resolveCanonicalId(request.id, listing);
  const title = request.revision === undefined ? id : `${id} at ${request.revision}`;
  const chosen = chooseFiles(
    title,
    listing.files.map(({ name }) => name),
    request,
  );
  const files: ResolvedFile[] = [];
  const byName = new Map(listing.files.map((file) => [file.name, file]));
  for (const [index, name] of chosen.names.entries()) {
    const listed = byName.get(name);
    if (!listed) throw new Error("a chosen file is missing in the listing");
    const url = buildUrl(hub.endpoint, [
      ...id.split("/"),
      "resolve",
      listing.commit,
      ...name.split("/"),
    ]);
    // The request for the first file shows if the account of the token has access to a gated repository.
    const isKnown = listed.sizeBytes !== null && (listed.sha256 ?? listed.gitBlob) !== null;
    const query = { ...request, endpoint: hub.endpoint, id, file: name };
    const facts =
      isKnown && !(listing.isGated && index === 0)
        ? undefined
        : await fetchFileFacts(hub, url, query, request.token, signal);
    const file = {
      name,
      sizeBytes: listed.sizeBytes ?? facts?.sizeBytes ?? null,
      sha256: listed.sha256 ?? facts?.sha256 ?? null,
      gitBlob: listed.gitBlob ?? facts?.gitBlob ?? null,
      etag: null,
      location: { type: "url", url: url.href },
    } as const;
    files.push(index === 0 ? withExpectedDigest(file, request.sha256, title) : file);
  }
  return {
    key: computeContentKey(files, [id, listing.commit]),
    commit: listing.commit,
    quantization: chosen.quantization,
    files,
  };
}

async function fetchListing(
  hub: HubEndpoint,
  request: RepositoryRequest,
  signal: AbortSignal,
): Promise<RepositoryListing> {
  const { id, revision, token } = request;
  const view = revision === undefined ? [] : ["revision", revision];
  const url = buildUrl(hub.endpoint, ["api", "models", ...id.split("/"), ...view]);
  // Only with the parameter `blobs` does the listing contain sizes and digests.
  url.searchParams.set("blobs", "true");
  const response = await sendHttpRequest(
    {
      method: "GET",
      url,
      headers: { accept: "application/json" },
      token,
      bodyBytesMax: LISTING_BYTES_MAX,
      limitMs: hub.limitMs,
    },
    signal,
  );
  if (response.status !== 200)
    throw toHubError(response, { endpoint: hub.endpoint, id, revision, file: null }, hub.now());
  const listing = parseRepositoryListing(response.body);
  if (!listing)
    throw hubUnreachableError(
      response.url,
      "the response is not a listing of a repository; check that the server is a hub",
    );
  return listing;
}

interface FileFacts {
  readonly sizeBytes: number | null;
  readonly sha256: string | null;
  readonly gitBlob: string | null;
}

/** Returns the facts that the hub reports about one file, without downloading it. Throws if the hub denies access. */
async function fetchFileFacts(
  hub: HubEndpoint,
  url: URL,
  query: HubQuery,
  token: string | undefined,
  signal: AbortSignal,
): Promise<FileFacts> {
  const response = await sendHttpRequest(
    {
      method: "HEAD",
      url,
      token,
      bodyBytesMax: undefined,
      limitMs: hub.limitMs,
      isSufficient: ({ headers }) => headers["x-linked-etag"] !== undefined,
    },
    signal,
  );
  if (response.status >= 400) throw toHubError(response, query, hub.now());
  const tag = getHeader(response, "x-linked-etag") ?? getHeader(response, "etag") ?? "";
  const digest = /^(?:W\/)?"([0-9a-f]+)"$/.exec(tag)?.[1] ?? "";
  const size = getHeader(response, "x-linked-size") ?? getHeader(response, "content-length");
  return {
    sizeBytes: size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : null,
    sha256: digest.length === 64 ? digest : null,
    gitBlob: digest.length === 40 ? digest : null,
  };
}

/**
 * Sets the digest of the spec as the file's expected digest. If the hub reports another digest, throws before anything
 * is downloaded.
 */
function withExpectedDigest(
  file: ResolvedFile,
  sha256: string | undefined,
  title: string,
): ResolvedFile {
  if (sha256 === undefined) return file;
  if (file.sha256 !== null && file.sha256 !== sha256)
    throw new BerthError(
      "digest_mismatch",
      `${file.name} of ${title} has the sha256 ${file.sha256}, but spec.sha256 is ${sha256}`,
      { hint: "check spec.sha256, or set spec.revision to a revision with this sha256" },
    );
  return { ...file, sha256 };
}

/**
 * Returns the repository's current name, which later requests use. It differs from the requested name if the repository
 * was renamed, or if the request has another spelling.
 */
function resolveCanonicalId(requestedId: string, { id }: RepositoryListing): string {
  const parsed = id === undefined ? undefined : parseModelSource(id);
  return parsed && "source" in parsed && parsed.source.type === "repository"
    ? parsed.source.id
    : requestedId;
}

/**
 * Builds a URL below the endpoint, which may have a path. A slash inside one of `parts` is escaped, because it belongs
 * to a name, such as the name of a branch.
 */
function buildUrl(endpoint: URL, parts: readonly string[]): URL {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  return new URL(`${endpoint.href.replace(/\/+$/, "")}/${path}`);
}

function getHeader({ headers }: HttpResponse, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : undefined;
}
