import { type BerthError, getErrorMessage, isAbortError } from "../../../base/errors.ts";
import { getSystemCode, sourceUnreachableError } from "./download-errors.ts";

/** A request has failed in a way that another one may not. `final` is what it comes to when none succeeds. */
export class RetryableError extends Error {
  readonly finalError: BerthError;
  /** The server is overloaded: fewer connections, and not before this time is over. */
  readonly overload: { readonly retryAfterMs: number | undefined } | undefined;

  constructor(final: BerthError, busy?: { readonly retryAfterMs: number | undefined }) {
    super(final.message, { cause: final });
    this.finalError = final;
    this.overload = busy;
  }
}

/** The file at the source is another one than before: what has come is of no use. */
export class SourceChangedError extends Error {
  readonly sizeBytes: number | null;

  constructor(sizeBytes: number | null) {
    super("the file has changed at its source");
    this.sizeBytes = sizeBytes;
  }
}

/** What a server says of the bytes that it sends cannot be right, or is not what it was asked for. */
export class BadRangeError extends RetryableError {
  constructor(host: string, why: string) {
    super(sourceUnreachableError(`what ${host} sends cannot be right: ${why}`));
  }
}

/** The server cannot, or does not rightly, send parts: one stream from the beginning has to do. */
export class RangesRefusedError extends Error {}

/** Errors of sockets and of TLS, as people may read them. */
export function toNetworkError(host: string, error: unknown): RetryableError {
  const code = getSystemCode(error);
  const why = isAbortError(error)
    ? "the connection was closed"
    : describeNetworkReason(code, error);
  const hint = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code ?? "")
    ? "its certificate is not trusted here: name the file of its authority in NODE_EXTRA_CA_CERTS"
    : undefined;
  return new RetryableError(
    sourceUnreachableError(`${host} cannot be reached: ${why}`, error, hint),
  );
}

function describeNetworkReason(code: string | undefined, error: unknown): string {
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "its name is not known here (DNS)";
    case "ECONNREFUSED":
      return "nothing listens there";
    case "ECONNRESET":
    case "EPIPE":
      return "the connection was cut";
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "the network does not lead there";
    default:
      return code ?? getErrorMessage(error);
  }
}
