import { BerthError, type ErrorCode, InvalidSpecError, isAbortError } from "../base/errors.ts";
import { formatIssue } from "../resources/validate-manifest.ts";
import { httpStatusByErrorCode } from "./error-http-status.ts";

export interface ErrorResponse {
  readonly status: number;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
  /** True for a programming error, which is logged with its stack and not shown to the caller. */
  readonly unexpected: boolean;
}

const ISSUES_SHOWN_MAX = 20;

/** Maps any thrown value to the response for the caller. */
export function toErrorResponse(error: unknown, requestId: string): ErrorResponse {
  if (error instanceof BerthError) {
    const retryAfter = getRetryAfterSeconds(error);
    return {
      status: httpStatusByErrorCode[error.code],
      message: withHint(formatIssues(error), error.hint),
      headers: {
        "x-error-code": error.code,
        ...(error.code === "unauthorized" ? { "www-authenticate": 'Bearer realm="berth"' } : {}),
        ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
      },
      unexpected: false,
    };
  }
  const known = getFrameworkError(error);
  const code = known?.code ?? "internal";
  return {
    status: httpStatusByErrorCode[code],
    message: known?.message ?? `internal error, request id ${requestId}`,
    headers: { "x-error-code": code },
    unexpected: known === undefined,
  };
}

/** Returns the error's message with all validation issues, because the response has no other field for them. */
function formatIssues(error: BerthError): string {
  if (!(error instanceof InvalidSpecError) || error.issues.length < 2) return error.message;
  const head = error.message.split(": ", 1)[0] ?? error.message;
  const shown = error.issues.slice(0, ISSUES_SHOWN_MAX).map((issue) => formatIssue(issue));
  const more = error.issues.length - shown.length;
  return `${head}: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}

/** Appends the hint to the message as a sentence. */
function withHint(message: string, hint: string | undefined): string {
  if (hint === undefined || hint === "") return message;
  const stop = /[.!?]$/.test(message) ? "" : ".";
  const end = /[.!?]$/.test(hint) ? "" : ".";
  return `${message}${stop} ${hint.charAt(0).toUpperCase()}${hint.slice(1)}${end}`;
}

function getRetryAfterSeconds(error: BerthError): number | undefined {
  if (error.code !== "too_many_requests") return undefined;
  const details = error.details;
  return typeof details === "object" && details !== null && "retryAfterSeconds" in details
    ? Number(details.retryAfterSeconds)
    : undefined;
}

interface KnownError {
  readonly code: ErrorCode;
  readonly message: string;
}

const frameworkErrors: Readonly<Record<string, KnownError>> = {
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: "invalid_request",
    message: "the request body is not as long as its Content-Length says",
  },
  FST_ERR_BAD_URL: {
    code: "invalid_request",
    message: "the path contains an invalid % encoding",
  },
  FST_ERR_MAX_PARAM_LENGTH: {
    code: "not_found",
    message: "the name in the path is longer than any name can be",
  },
  FST_REQ_FILE_TOO_LARGE: {
    code: "payload_too_large",
    message: "the uploaded file is too large",
  },
  FST_PARTS_LIMIT: { code: "invalid_request", message: "the form has too many parts" },
  FST_FILES_LIMIT: { code: "invalid_request", message: "the form has too many files" },
  FST_FIELDS_LIMIT: { code: "invalid_request", message: "the form has too many fields" },
  FST_INVALID_JSON_FIELD_ERROR: { code: "invalid_request", message: "config: is not JSON" },
  FST_PROTO_VIOLATION: {
    code: "invalid_request",
    message: "the form has a part with a name that is not allowed",
  },
};

const codeByStatus: Readonly<Record<number, ErrorCode>> = {
  404: "not_found",
  413: "payload_too_large",
  415: "unsupported_media_type",
};

function getFrameworkError(error: unknown): KnownError | undefined {
  if (!(error instanceof Error)) return undefined;
  // The client disconnected, or the server is closing. Either event aborts the work that the request waits for.
  if (isAbortError(error)) {
    return { code: "shutting_down", message: "the server is shutting down" };
  }
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const known = frameworkErrors[code];
  if (known !== undefined) return known;
  if (code === "ECONNRESET" || code === "ERR_STREAM_PREMATURE_CLOSE") {
    return {
      code: "invalid_request",
      message: "the request ended before its body was complete",
    };
  }
  // The messages of other client errors (4xx) of the HTTP framework and its plugins are readable and have no internal
  // details, so callers get them.
  const status = "statusCode" in error ? Number(error.statusCode) : 500;
  if (status < 400 || status >= 500) return undefined;
  return { code: codeByStatus[status] ?? "invalid_request", message: error.message };
}
