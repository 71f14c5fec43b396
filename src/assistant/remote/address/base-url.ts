import { isIP } from "node:net";
import { AssistantError } from "../../assistant-error.ts";

/** A base URL, taken apart. Nothing has been looked up yet. */
export interface BaseUrl {
  /** Normal form, no slash at its end: `origin` and `path`. */
  readonly href: string;
  /** With the port where it is not the usual one. */
  readonly origin: string;
  /** `/v1`, or empty. */
  readonly path: string;
  readonly isEncrypted: boolean;
  /** A name in lower case and ASCII, or an address without brackets. */
  readonly host: string;
  readonly isIpLiteral: boolean;
  readonly port: number;
}

/** Longer ones are no addresses that a person has written down. */
const CHARACTERS_MAX = 2_048;
/** Of a name in the DNS, and of a part of it. */
const HOST_CHARACTERS_MAX = 253;
const LABEL_CHARACTERS_MAX = 63;

/** Throws AssistantError `invalid_request` with what is wrong. Never says what a user or a query was: it may be a key. */
export function parseBaseUrl(text: string): BaseUrl {
  const given = text.trim();
  if (given === "")
    throw invalidBaseUrlError("it is empty; write one such as https://example.com/v1");
  if (given.length > CHARACTERS_MAX)
    throw invalidBaseUrlError(`it is longer than ${CHARACTERS_MAX} characters`);
  // The URL parser drops or turns round what is between these, so a person sees another address than it reads.
  if (/[\s\\\p{Cc}\p{Cf}]/u.test(given))
    throw invalidBaseUrlError("it has a space, a backslash or an invisible character");
  const authority = /^https?:\/\/(?<authority>[^/?#]+)/i.exec(given)?.groups?.["authority"];
  if (authority === undefined)
    throw invalidBaseUrlError("it has to begin with https:// or http:// and a host");
  if (authority.includes("@"))
    throw invalidBaseUrlError(
      "it has a user or a password (before @); leave them out, and set the key with SetKey",
    );
  if (given.includes("?") || given.includes("#"))
    throw invalidBaseUrlError(
      "it has a query (?) or a fragment (#); leave them out, and set a key with SetKey",
    );
  const url = URL.parse(given) ?? undefined;
  if (!url) throw invalidBaseUrlError("its host or its port cannot be one");
  return normalizeUrl(url);
}

function normalizeUrl(url: URL): BaseUrl {
  const host = getHost(url);
  const isIpLiteral = isIP(host) !== 0;
  if (!isIpLiteral) assertHostName(host);
  if (url.port === "0") throw invalidBaseUrlError("its port cannot be 0");
  const path = url.pathname.replace(/\/+$/, "");
  if (/\/(chat\/completions|completions|embeddings|models)$/.test(path))
    throw invalidBaseUrlError(`it goes too far: leave out ${/\/(chat\/)?[^/]+$/.exec(path)?.[0]}`);
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

/** Without the dot that a full name may end with: certificates and origins do not have it. */
function getHost(url: URL): string {
  return url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, "");
}

function assertHostName(host: string): void {
  const isName =
    host.length <= HOST_CHARACTERS_MAX &&
    host.split(".").every((label) => label !== "" && label.length <= LABEL_CHARACTERS_MAX) &&
    /^[a-z0-9._-]+$/.test(host);
  if (!isName) throw invalidBaseUrlError("its host cannot be the name of a machine");
}

function defaultPort(isEncrypted: boolean): number {
  return isEncrypted ? 443 : 80;
}

export function invalidBaseUrlError(why: string): AssistantError {
  return new AssistantError("invalid_request", `this base_url cannot be used: ${why}`, {
    param: "base_url",
  });
}
