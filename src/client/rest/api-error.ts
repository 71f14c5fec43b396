import { BerthError, type ErrorCode, errorCodes } from "../../base/errors.ts";

/** An error response of the server. `status` is the HTTP status; the server's log has an entry with `requestId`. */
export class ApiError extends BerthError {
  readonly status: number;
  readonly requestId: string | undefined;
  /** The number of seconds after which the server accepts a retry, for status 429. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: number,
    message: string,
    options: {
      /** The code that the server sent; if undefined, the code is derived from the status. */
      code?: string | undefined;
      requestId?: string | undefined;
      retryAfterSeconds?: number | undefined;
    } = {},
  ) {
    super(errorCodes.find((code) => code === options.code) ?? codeForStatus(status), message);
    this.status = status;
    this.requestId = options.requestId;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

const codes: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  408: "timeout",
  409: "conflict",
  413: "payload_too_large",
  415: "unsupported_media_type",
  429: "too_many_requests",
  501: "not_implemented",
  503: "engine_unreachable",
  507: "disk_full",
};

function codeForStatus(status: number): ErrorCode {
  return codes[status] ?? (status < 500 ? "invalid_request" : "internal");
}
