import { BerthError } from "../../../base/errors.ts";
import { parseModelSource } from "../../../resources/model-source.ts";
import { chooseFiles } from "./choose-files.ts";
import { unreachable } from "./failures.ts";
import { ask, type HttpAnswer } from "./http.ts";
import { type Asked, hubRefusal } from "./hub-refusal.ts";
import { type Listing, readListing } from "./listing.ts";
import { contentKey } from "./model-key.ts";
import type { ResolvedFile, ResolvedModel } from "./port.ts";

export interface RepositoryRequest {
  /** `org/name` */
  readonly id: string;
  readonly file: string | undefined;
  readonly quantization: string | undefined;
  readonly revision: string | undefined;
  readonly sha256: string | undefined;
  readonly token: string | undefined;
}

export interface HubAccess {
  readonly endpoint: URL;
  readonly limitMs: number;
  readonly now: () => number;
}

/** A listing of thousands of files with their digests; one of a usual repository has some kilobytes. */
const LISTING_BYTES_MAX = 64 * 1024 * 1024;

/** What a repository of a hub comes to: one commit of it, the files of one model, and their digests. */
export async function resolveRepository(
  hub: HubAccess,
  request: RepositoryRequest,
  signal: AbortSignal,
): Promise<ResolvedModel> {
  const listing = await list(hub, request, signal);
  const id = canonicalId(request.id, listing);
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
    if (!listed) throw new Error("what was chosen is listed");
    const url = at(hub.endpoint, [...id.split("/"), "resolve", listing.commit, ...name.split("/")]);
    // Whether this account gets the files of a gated repository shows at the first of them, and nowhere else.
    const isKnown = listed.sizeBytes !== null && (listed.sha256 ?? listed.gitBlob) !== null;
    const asked = { ...request, endpoint: hub.endpoint, id, file: name };
    const looked =
      isKnown && !(listing.gated && index === 0)
        ? undefined
        : await lookAt(hub, url, asked, request.token, signal);
    const file = {
      name,
      sizeBytes: listed.sizeBytes ?? looked?.sizeBytes ?? null,
      sha256: listed.sha256 ?? looked?.sha256 ?? null,
      gitBlob: listed.gitBlob ?? looked?.gitBlob ?? null,
      etag: null,
      location: { type: "url", url: url.href },
    } as const;
    files.push(index === 0 ? expected(file, request.sha256, title) : file);
  }
  return {
    key: contentKey(files, [id, listing.commit]),
    commit: listing.commit,
    quantization: chosen.quantization,
    files,
  };
}

async function list(
  hub: HubAccess,
  request: RepositoryRequest,
  signal: AbortSignal,
): Promise<Listing> {
  const { id, revision, token } = request;
  const view = revision === undefined ? [] : ["revision", revision];
  const url = at(hub.endpoint, ["api", "models", ...id.split("/"), ...view]);
  // Sizes and digests are told only to those who ask.
  url.searchParams.set("blobs", "true");
  const answer = await ask(
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
  if (answer.status !== 200)
    throw hubRefusal(answer, { endpoint: hub.endpoint, id, revision, file: null }, hub.now());
  const listing = readListing(answer.body);
  if (!listing)
    throw unreachable(answer.url, "what it answers is no listing of a repository; is it a hub?");
  return listing;
}

interface Looked {
  readonly sizeBytes: number | null;
  readonly sha256: string | null;
  readonly gitBlob: string | null;
}

/** What the hub says of one file, without fetching it. Throws where it would not give it. */
async function lookAt(
  hub: HubAccess,
  url: URL,
  asked: Asked,
  token: string | undefined,
  signal: AbortSignal,
): Promise<Looked> {
  const answer = await ask(
    {
      method: "HEAD",
      url,
      token,
      bodyBytesMax: undefined,
      limitMs: hub.limitMs,
      isEnough: ({ headers }) => headers["x-linked-etag"] !== undefined,
    },
    signal,
  );
  if (answer.status >= 400) throw hubRefusal(answer, asked, hub.now());
  const tag = text(answer, "x-linked-etag") ?? text(answer, "etag") ?? "";
  const digest = /^(?:W\/)?"([0-9a-f]+)"$/.exec(tag)?.[1] ?? "";
  const size = text(answer, "x-linked-size") ?? text(answer, "content-length");
  return {
    sizeBytes: size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : null,
    sha256: digest.length === 64 ? digest : null,
    gitBlob: digest.length === 40 ? digest : null,
  };
}

/** The spec's digest has the last word: where the hub says another, nothing is downloaded for nothing. */
function expected(file: ResolvedFile, sha256: string | undefined, title: string): ResolvedFile {
  if (sha256 === undefined) return file;
  if (file.sha256 !== null && file.sha256 !== sha256)
    throw new BerthError(
      "digest_mismatch",
      `${file.name} of ${title} has the sha256 ${file.sha256}, and spec.sha256 says ${sha256}`,
      { hint: "correct sha256, or name the revision that it belongs to" },
    );
  return { ...file, sha256 };
}

/** A repository that was renamed, or spelt otherwise, is asked for by its own name from here on. */
function canonicalId(asked: string, { id }: Listing): string {
  const parsed = id === undefined ? undefined : parseModelSource(id);
  return parsed && "source" in parsed && parsed.source.type === "repository"
    ? parsed.source.id
    : asked;
}

/** A URL below the endpoint, which may have a path of its own. Slashes inside a part are part of a name. */
function at(endpoint: URL, parts: readonly string[]): URL {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  return new URL(`${endpoint.href.replace(/\/+$/, "")}/${path}`);
}

function text({ headers }: HttpAnswer, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : undefined;
}
