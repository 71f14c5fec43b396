import {
  type BerthError,
  getErrorCode,
  getErrorMessage,
  isAbortError,
} from "../../../base/errors.ts";
import { sourceUnreachableError } from "./download-errors.ts";

/**
 * The way in which a failed request can be repeated:
 * - `failed`: the same request may succeed later;
 * - `overloaded`: the same request may succeed later, with fewer connections and after `retryAfterMs`;
 * - `bad-range`: the response contradicts itself or the request; the same request may succeed;
 * - `no-ranges`: the server does not send parts correctly; one stream of the whole file may succeed;
 * - `changed`: the file at the source has changed; only a new download may succeed.
 */
type RetryableKind = "failed" | "overloaded" | "bad-range" | "no-ranges" | "changed";

/** Thrown for a failed request if another one may succeed. */
export class RetryableError extends Error {
  readonly kind: RetryableKind;
  /** The error to throw when the retries are used up. */
  readonly finalError: BerthError;
  /** The delay that an overloaded server has requested; undefined if it sent none. */
  readonly retryAfterMs: number | undefined;
  /** The new size of a changed file; null if the server did not send it. */
  readonly sizeBytes: number | null;

  constructor(
    kind: RetryableKind,
    finalError: BerthError,
    details: {
      readonly retryAfterMs?: number | undefined;
      readonly sizeBytes?: number | null;
    } = {},
  ) {
    super(finalError.message, { cause: finalError });
    this.kind = kind;
    this.finalError = finalError;
    this.retryAfterMs = details.retryAfterMs;
    this.sizeBytes = details.sizeBytes ?? null;
  }
}

export function badRangeError(host: string, why: string): RetryableError {
  return new RetryableError(
    "bad-range",
    sourceUnreachableError(`${host} sent a contradictory response: ${why}`),
  );
}

export function noRangesError(reason: string): RetryableError {
  return new RetryableError("no-ranges", sourceUnreachableError(reason));
}

/**
 * Converts a socket or TLS error to a RetryableError that names the host. If the host's certificate is not trusted,
 * adds a hint.
 */
export function toNetworkError(host: string, error: unknown): RetryableError {
  const code = getErrorCode(error);
  const why = isAbortError(error)
    ? "the connection was closed"
    : describeNetworkReason(code, error);
  const hint = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code ?? "")
    ? "the server's certificate is not trusted on this machine: set NODE_EXTRA_CA_CERTS to the file of its certificate authority"
    : undefined;
  return new RetryableError(
    "failed",
    sourceUnreachableError(`${host} cannot be reached: ${why}`, error, hint),
  );
}

function describeNetworkReason(code: string | undefined, error: unknown): string {
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the host name cannot be resolved (DNS)";
    case "ECONNREFUSED":
      return "it refused the connection";
    case "ECONNRESET":
    case "EPIPE":
      return "the connection was cut";
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "there is no network route to the host";
    default:
      return code ?? getErrorMessage(error);
  }
}
