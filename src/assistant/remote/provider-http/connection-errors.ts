import { errors } from "undici";
import { getErrorCode } from "../../../base/errors.ts";
import { AssistantError } from "../../assistant-error.ts";

/** The destination of a request, as error messages name it. */
export interface ProviderEndpoint {
  readonly providerId: string;
  /**
   * The provider's origin, for example `https://example.com`. It includes the port unless the port is the scheme's
   * default.
   */
  readonly origin: string;
}

function unreachableError(named: ProviderEndpoint, why: string): AssistantError {
  return new AssistantError(
    "unreachable",
    `the provider ${named.providerId} cannot be reached at ${named.origin}: ${why}`,
  );
}

/**
 * Thrown if a reused connection was closed before any byte of an answer arrived. The request may be sent again on a new
 * connection.
 */
export class LostConnectionError extends Error {}

/**
 * Turns an error of connecting or of the TLS handshake into an AssistantError. The original error is not set as its
 * cause, because that error may contain data of the server.
 */
export function connectError(named: ProviderEndpoint, error: unknown): AssistantError {
  if (error instanceof AssistantError)
    return error.code === "unreachable" ? unreachableError(named, error.message) : error;
  const code = getErrorCode(error) ?? "";
  return unreachableError(named, reasons[code] ?? describeErrorCode(code));
}

/**
 * Returns the error for a connection that failed after it was established and before the head of the answer was
 * complete. `bytes` is the number of bytes of the answer that had arrived.
 */
export function noResponseError(
  named: ProviderEndpoint,
  error: unknown,
  bytes: number,
): AssistantError {
  return bytes === 0
    ? unreachableError(named, "the provider ended the connection without an answer")
    : badResponseError(named, describeParserError(error));
}

/** Returns the error for a failure while the body of an answer is read. */
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
    `the provider ${named.providerId} does not answer like a provider (${what}); check its base_url`,
  );
}

/**
 * Returns true if the server's data was not valid HTTP. `data`, the text that the parser could not read, is empty if
 * the answer merely ended within a chunk.
 */
function isUnparsable(error: unknown): boolean {
  return error instanceof errors.HTTPParserError && "data" in error && error.data !== "";
}

function describeParserError(error: unknown): string {
  return error instanceof errors.HeadersOverflowError
    ? "the headers of the answer are too long"
    : "the answer is not HTTP";
}

const notTrusted =
  "the provider's certificate is not signed by an authority that this machine trusts";
const noRoute = "there is no route to the provider's address";

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the provider closed the connection at once",
  EPIPE: "the provider closed the connection at once",
  ETIMEDOUT: "the provider does not answer",
  EHOSTUNREACH: noRoute,
  ENETUNREACH: noRoute,
  EADDRNOTAVAIL: noRoute,
  EMFILE: "this program has too many files open",
  CERT_HAS_EXPIRED: "the provider's certificate has expired",
  CERT_NOT_YET_VALID: "the provider's certificate is not valid yet; check this machine's clock",
  CERT_REVOKED: "the provider's certificate was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  ERR_TLS_CERT_ALTNAME_INVALID: "the provider's certificate is for another host name",
};

function describeErrorCode(code: string): string {
  if (code === "EPROTO" || code.startsWith("ERR_SSL") || code.startsWith("ERR_TLS"))
    return `the TLS handshake failed (${code})`;
  return code === "" ? "the connection failed" : `the connection failed (${code})`;
}
