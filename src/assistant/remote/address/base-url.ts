import { isIP } from "node:net";
import { AssistantError } from "../../assistant-error.ts";

/** The parts of a provider's base URL. The host is not resolved yet. */
export interface BaseUrl {
  /** The URL in normal form without a slash at the end: `origin` followed by `path`. */
  readonly href: string;
  /** The origin of the URL. It includes the port unless the port is the scheme's default. */
  readonly origin: string;
  /** The path without a slash at the end, such as `/v1`, or "". */
  readonly path: string;
  readonly isEncrypted: boolean;
  /** The host: a name in lower-case ASCII, or an IP address without brackets. */
  readonly host: string;
  readonly isIpLiteral: boolean;
  readonly port: number;
}

/** The maximum length of a base URL, far above that of any real address. */
const CHARACTERS_MAX = 2_048;
/** The largest lengths that the DNS allows for a name and for one label of a name. */
const HOST_CHARACTERS_MAX = 253;
const LABEL_CHARACTERS_MAX = 63;

/**
 * Parses the base URL that a user entered. Throws AssistantError `invalid_request` with the problem. The message never
 * quotes the URL's user or query, because they may contain a key.
 */
export function parseBaseUrl(text: string): BaseUrl {
  const given = text.trim();
  if (given === "")
    throw invalidBaseUrlError("the URL is empty; write one such as https://example.com/v1");
  if (given.length > CHARACTERS_MAX)
    throw invalidBaseUrlError(`the URL is longer than ${CHARACTERS_MAX} characters`);
  // The URL parser drops or replaces white space, backslashes and invisible characters, so the parsed URL would differ
  // from the one that the user sees.
  if (/[\s\\\p{Cc}\p{Cf}]/u.test(given))
    throw invalidBaseUrlError("the URL has a space, a backslash or an invisible character");
  const authority = /^https?:\/\/(?<authority>[^/?#]+)/i.exec(given)?.groups?.["authority"];
  if (authority === undefined)
    throw invalidBaseUrlError("the URL has to begin with https:// or http:// and a host");
  if (authority.includes("@"))
    throw invalidBaseUrlError(
      "the URL has a user or a password (before @); leave them out, and set the key with SetKey",
    );
  if (given.includes("?") || given.includes("#"))
    throw invalidBaseUrlError(
      "the URL has a query (?) or a fragment (#); leave them out, and set a key with SetKey",
    );
  const url = URL.parse(given) ?? undefined;
  if (!url) throw invalidBaseUrlError("the host or the port of the URL is invalid");
  return normalizeUrl(url);
}

function normalizeUrl(url: URL): BaseUrl {
  const host = getHost(url);
  const isIpLiteral = isIP(host) !== 0;
  if (!isIpLiteral) assertHostName(host);
  if (url.port === "0") throw invalidBaseUrlError("the port of the URL cannot be 0");
  const path = url.pathname.replace(/\/+$/, "");
  if (/\/(chat\/completions|completions|embeddings|models)$/.test(path))
    throw invalidBaseUrlError(
      `the URL includes the path of a route: leave out ${/\/(chat\/)?[^/]+$/.exec(path)?.[0]}`,
    );
  const isEncrypted = url.protocol === "https:";
  const written = host.includes(":") ? `[${host}]` : host;
  const port = url.port === "" ? "" : `:${url.port}`;
  const origin = `${url.protocol}//${written}${port}`;
  return {
    href: origin + path,
    origin,
    path,
    isEncrypted,
    host,
    isIpLiteral,
    port: url.port === "" ? defaultPort(isEncrypted) : Number(url.port),
  };
}

/**
 * Returns the URL's host without brackets. The dot at the end of a fully qualified name is removed, because
 * certificates and origins do not have it.
 */
function getHost(url: URL): string {
  return url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, "");
}

function assertHostName(host: string): void {
  const isName =
    host.length <= HOST_CHARACTERS_MAX &&
    host.split(".").every((label) => label !== "" && label.length <= LABEL_CHARACTERS_MAX) &&
    /^[a-z0-9._-]+$/.test(host);
  if (!isName) throw invalidBaseUrlError("the host of the URL is not a valid host name");
}

function defaultPort(isEncrypted: boolean): number {
  return isEncrypted ? 443 : 80;
}

export function invalidBaseUrlError(why: string): AssistantError {
  return new AssistantError("invalid_request", `this base_url cannot be used: ${why}`, {
    param: "base_url",
  });
}
