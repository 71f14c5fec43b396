/**
 * The base class of every error that Berth throws on purpose. `code` is stable and documented in
 * docs/errors.md; `message` says what happened and to what; `hint` is the next thing to try.
 * Message and hint are sent to callers, so they hold no secret, no stack and no path of this machine.
 */
export class BerthError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly details: unknown;

  constructor(
    code: ErrorCode,
    message: string,
    options: { hint?: string | undefined; cause?: unknown; details?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.hint = options.hint;
    this.details = options.details;
  }
}

/**
 * Every code that a caller can receive. The API maps each to a status in `src/api/error-http-status.ts`,
 * the command line to an exit code; `docs/errors.md` explains each one.
 */
export const errorCodes = [
  "invalid_spec",
  "invalid_request",
  "unauthorized",
  "forbidden",
  "not_found",
  "method_not_allowed",
  "conflict",
  "name_taken",
  "field_owned",
  "wrong_state",
  "request_timeout",
  "payload_too_large",
  "unsupported_media_type",
  "headers_too_large",
  "too_many_requests",
  "timeout",
  "engine_unreachable",
  "engine_leased",
  "server_unreachable",
  "engine_error",
  "image_not_found",
  "registry_denied",
  "registry_unreachable",
  "git_unreachable",
  "git_denied",
  "git_not_found",
  "hub_unreachable",
  "hub_denied",
  "hub_not_found",
  "digest_mismatch",
  "model_unusable",
  "insufficient_memory",
  "assistant_unreachable",
  "consent_required",
  "provider_denied",
  "provider_unreachable",
  "provider_failed",
  "archive_invalid",
  "build_failed",
  "name_clash",
  "port_taken",
  "disk_full",
  "store_locked",
  "store_corrupt",
  "shutting_down",
  "not_implemented",
  "internal",
] as const;

export type ErrorCode = (typeof errorCodes)[number];

export class NotFoundError extends BerthError {
  constructor(message: string, hint?: string) {
    super("not_found", message, { hint });
  }
}

/** Thrown if a write conflicts with the current state. Repeating the same write does not help. */
export class ConflictError extends BerthError {
  constructor(
    code: "conflict" | "name_taken" | "field_owned" | "wrong_state",
    message: string,
    options: { hint?: string; details?: unknown } = {},
  ) {
    super(code, message, options);
  }
}

/** One problem in a document. `path` is a JSON Pointer into the document. */
export interface SpecIssue {
  readonly path: string;
  readonly message: string;
  /** Line and column in the source text, counted from 1; absent if the document did not come from a text. */
  readonly line?: number;
  readonly column?: number;
}

export class InvalidSpecError extends BerthError {
  readonly issues: readonly SpecIssue[];
  constructor(message: string, issues: readonly SpecIssue[], hint?: string) {
    super("invalid_spec", message, { hint, details: { issues } });
    this.issues = issues;
  }
}

/** Returns the code of a system error, such as ENOENT; undefined for a value without a code. */
export function getErrorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}

/** Returns the code of a system error for the end of a message: " (ENOENT)", or "" for a value without a code. */
export function formatErrorCode(error: unknown): string {
  const code = getErrorCode(error);
  return code === undefined ? "" : ` (${code})`;
}

/** Returns true for the system error of a full disk or a used-up quota. */
export function isDiskFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(getErrorCode(error) ?? "");
}

/** Returns the message of any thrown value, without a stack. */
export function getErrorMessage(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === "string" ? error : "unknown error";
}

/** Returns true for the rejection that an aborted signal causes, which is never a failure. */
export function isAbortError(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}
