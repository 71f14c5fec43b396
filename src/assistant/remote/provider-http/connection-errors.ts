import { errors } from "undici";
import { AssistantError } from "../../assistant-error.ts";

/** What somebody connects to, for messages. */
export interface ProviderEndpoint {
  readonly providerId: string;
  /** `https://example.com`, with the port where it is not the usual one. */
  readonly origin: string;
}

function unreachableError(named: ProviderEndpoint, why: string): AssistantError {
  return new AssistantError(
    "unreachable",
    `the provider ${named.providerId} cannot be reached at ${named.origin}: ${why}`,
  );
}

/** A kept connection that was closed, and of which no byte of an answer came: to be tried on a new one. */
export class LostConnectionError extends Error {}

/** Of connecting, the certificate included. The error itself is not passed on: it may hold what the other side sent. */
export function connectError(named: ProviderEndpoint, error: unknown): AssistantError {
  if (error instanceof AssistantError)
    return error.code === "unreachable" ? unreachableError(named, error.message) : error;
  const code = getErrorCode(error);
  return unreachableError(named, reasons[code] ?? describeErrorCode(code));
}

/** Of a connection that was there, before the head of the answer. `bytes` of an answer came. */
export function noResponseError(
  named: ProviderEndpoint,
  error: unknown,
  bytes: number,
): AssistantError {
  return bytes === 0
    ? unreachableError(named, "it ended the connection without an answer")
    : badResponseError(named, describeParserError(error));
}

/** In the body of an answer. */
export function cutOffError(named: ProviderEndpoint, error: unknown): AssistantError {
  if (isUnparsable(error)) return badResponseError(named, describeParserError(error));
  return new AssistantError(
    "cut_off",
    `the provider ${named.providerId} ended the connection in the middle of its answer`,
  );
}

export function badResponseError(named: ProviderEndpoint, what: string): AssistantError {
  return new AssistantError(
    "bad_response",
    `the provider ${named.providerId} does not answer as providers do (${what}); see that its base_url is right`,
  );
}

/** `data` is what the parser could not read; of an end in the middle of a chunk nothing is left. */
function isUnparsable(error: unknown): boolean {
  return error instanceof errors.HTTPParserError && "data" in error && error.data !== "";
}

function describeParserError(error: unknown): string {
  return error instanceof errors.HeadersOverflowError ? "headers without end" : "no HTTP";
}

function getErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : "";
}

const notTrusted = "nobody whom this machine trusts vouches for its certificate";
const noRoute = "there is no way to its address from here";

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nobody listens there",
  ECONNRESET: "it ended the connection at once",
  EPIPE: "it ended the connection at once",
  ETIMEDOUT: "nobody answers there",
  EHOSTUNREACH: noRoute,
  ENETUNREACH: noRoute,
  EADDRNOTAVAIL: noRoute,
  EMFILE: "this program has too many files open",
  CERT_HAS_EXPIRED: "its certificate has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet; see that this machine's clock is right",
  CERT_REVOKED: "its certificate was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};

function describeErrorCode(code: string): string {
  if (code === "EPROTO" || code.startsWith("ERR_SSL") || code.startsWith("ERR_TLS"))
    return `it does not speak TLS as it should (${code})`;
  return code === "" ? "the connection failed" : `the connection failed (${code})`;
}
