import { BerthError } from "../../../base/errors.ts";
import { parseGgufName } from "./gguf-name.ts";
import { retryLaterError } from "./hub-errors.ts";
import { computeContentKey } from "./model-key.ts";
import type { ResolvedFile, ResolvedModel } from "./port.ts";
import { chooseServedName } from "./served-name.ts";
import { type HttpResponse, sendHttpRequest } from "./source-http.ts";
import { listPartNames } from "./split-names.ts";

export interface UrlRequest {
  readonly url: URL;
  readonly sha256: string | undefined;
  readonly token: string | undefined;
}

export interface UrlResolverOptions {
  readonly limitMs: number;
  readonly now: () => number;
}

/**
 * Requests the size and the ETag of the file at a URL. If the file is one part of a split model, requests those of the
 * other parts too.
 */
export async function resolveUrl(
  access: UrlResolverOptions,
  request: UrlRequest,
  signal: AbortSignal,
): Promise<ResolvedModel> {
  const urls = listPartUrls(request.url);
  const files: ResolvedFile[] = [];
  const origin: unknown[] = [];
  for (const [index, url] of urls.entries()) {
    const response = await probeUrl(access, url, request.token, signal);
    const facts = readUrlFacts(response);
    const sha256 = index === 0 ? (request.sha256 ?? null) : null;
    const name =
      urls.length > 1
        ? getLastPathSegment(url)
        : chooseServedName(url, response.url, facts.disposition);
    origin.push([url.href, facts.etag ?? facts.weakEtag, facts.lastModified, facts.sizeBytes]);
    const location = { type: "url", url: url.href } as const;
    files.push({
      name,
      sizeBytes: facts.sizeBytes,
      sha256,
      gitBlob: null,
      etag: facts.etag,
      location,
    });
  }
  return {
    key: computeContentKey(files, origin),
    commit: null,
    quantization: parseGgufName(files[0]?.name ?? "")?.quantization ?? null,
    files,
  };
}

function listPartUrls(url: URL): URL[] {
  const name = getLastPathSegment(url);
  return listPartNames(name).map((part) => {
    const one = new URL(url);
    if (part !== name)
      one.pathname = one.pathname.replace(/[^/]*$/, () => encodeURIComponent(part));
    return one;
  });
}

function getLastPathSegment(url: URL): string {
  const last = url.pathname.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/**
 * Sends HEAD. If the server refuses it or omits the size, sends GET for one byte, because URLs that are signed for GET
 * refuse HEAD.
 */
async function probeUrl(
  { limitMs, now }: UrlResolverOptions,
  url: URL,
  token: string | undefined,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const probe = { url, token, limitMs, bodyBytesMax: undefined };
  const head = await sendHttpRequest({ ...probe, method: "HEAD" }, signal);
  const isBusy = head.status === 429 || (head.status >= 500 && head.status !== 501);
  if (isBusy) throw retryLaterError(head, now());
  const hasSize = head.status === 200 && readUrlFacts(head).sizeBytes !== null;
  const response = hasSize
    ? head
    : await sendHttpRequest({ ...probe, method: "GET", headers: { range: "bytes=0-0" } }, signal);
  if (response.status !== 200 && response.status !== 206) throw toUrlError(response, url, now());
  if (/^(text\/html|application\/xhtml)/i.test(response.headers["content-type"] ?? ""))
    throw new BerthError("hub_not_found", `${formatUrl(url)} is a web page, not a GGUF file`, {
      hint: "set source to the URL of the file itself, which the page's download button has",
    });
  return response;
}

interface UrlFacts {
  readonly sizeBytes: number | null;
  /** A strong entity tag with its quotation marks. */
  readonly etag: string | null;
  readonly weakEtag: string | null;
  readonly lastModified: string | null;
  readonly disposition: string | undefined;
}

function readUrlFacts({ status, headers }: HttpResponse): UrlFacts {
  const whole =
    status === 206
      ? /^bytes [\d-]+\/(\d{1,15})$/.exec(headers["content-range"] ?? "")?.[1]
      : headers["content-length"];
  const { etag } = headers;
  const isStrong = etag !== undefined && /^"[^"]*"$/.test(etag);
  return {
    sizeBytes: whole !== undefined && /^\d{1,15}$/.test(whole) ? Number(whole) : null,
    etag: isStrong ? etag : null,
    weakEtag: isStrong ? null : (etag ?? null),
    lastModified: headers["last-modified"] ?? null,
    disposition: headers["content-disposition"],
  };
}

function toUrlError(response: HttpResponse, url: URL, nowMs: number): BerthError {
  const { status } = response;
  if (status === 429 || status >= 500 || status < 400) return retryLaterError(response, nowMs);
  if (status === 401 || status === 403) {
    if (response.url.origin !== url.origin)
      return new BerthError(
        "hub_denied",
        `${formatUrl(url)} redirects to ${response.url.host}, which denies access (HTTP ${status}); Berth sends no token to another server`,
        {
          hint: "if the other server may receive the token, set source to the URL of the redirect",
        },
      );
    return response.isAuthorised
      ? new BerthError("hub_denied", `${formatUrl(url)}: the server does not accept the token`, {
          hint: "check that the token in the Secret that credential names is valid and may read the file",
        })
      : new BerthError(
          "hub_denied",
          `${formatUrl(url)}: the server requires a token (HTTP ${status})`,
          {
            hint: "create a Secret with the key token, and set credential to its name",
          },
        );
  }
  return status === 404 || status === 410
    ? new BerthError("hub_not_found", `${formatUrl(url)}: the file does not exist`, {
        hint: "check the URL in source",
      })
    : new BerthError(
        "hub_not_found",
        `${formatUrl(url)}: the server refused the request with HTTP ${status}`,
        {
          hint: "check the URL in source",
        },
      );
}

/** Formats a URL without its query, which may contain a signature, for a message. */
function formatUrl(url: URL): string {
  return url.origin + url.pathname;
}
