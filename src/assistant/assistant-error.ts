/**
 * The root class of all errors that the assistant throws on purpose. The message names what happened, what it happened
 * to, and what to do next. Messages are sent to callers, so they never contain a path, a secret, a prompt or a stack.
 */
export class AssistantError extends Error {
  readonly code: AssistantErrorCode;
  /** The request parameter that caused the error, as the client spelled it, such as `messages[2].content`. */
  readonly param: string | undefined;
  /** Whole seconds after which a retry may succeed; undefined if a retry would not help or the time is unknown. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: AssistantErrorCode,
    message: string,
    options: { param?: string | undefined; retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.param = options.param;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Every error code that a caller of the assistant can receive; `docs/assistant-errors.md` explains each one. */
export const assistantErrorCodes = [
  /** The request is invalid; `param` names the invalid parameter. */
  "invalid_request",
  /** The parameter is known, but the assistant does not support it. */
  "unsupported_parameter",
  /** A schema uses a keyword that cannot be enforced; the message contains the keyword and its JSON Pointer. */
  "unsupported_schema",
  "context_length_exceeded",
  "model_not_found",
  /** No model is loaded, and no model is known that could be loaded. */
  "no_model",
  /** A model exists but cannot be loaded: its file is damaged or too large, or its architecture is unknown. */
  "model_unusable",
  /** Loading the model needs more memory than the machine has available. */
  "insufficient_memory",
  /** The model does not support this kind of request, such as a chat with an embedding model. */
  "model_unsuitable",
  "queue_full",
  /** Another operation of the same caller must end before this request can be accepted. */
  "busy",
  /** The caller exceeds one of its limits; the message says which one, and its value. */
  "limits_exceeded",
  "timeout",
  /** The caller ended the operation with Cancel or Close, or a later change replaced it. */
  "cancelled",
  /** The model's answer did not match the schema, twice in a row. */
  "invalid_output",
  /** The inference engine exited during the request. */
  "engine_failed",
  "ledger_unavailable",
  /**
   * The assistant's own files cannot be read or written, because the disk is full, or because files are damaged or
   * missing.
   */
  "storage_failed",
  /** A resource with this name exists already. */
  "exists",
  /** The request contains data that the user has not allowed to leave the machine; nothing was sent. */
  "consent_required",
  /** A provider rejects the credential, or there is no credential. */
  "unauthorized",
  /** A provider cannot be reached because of its name, its address, its certificate or the network. */
  "unreachable",
  /** A provider limits the rate of requests. */
  "rate_limited",
  /** A provider reports an internal failure. */
  "provider_failed",
  /** A provider's answer ended before it was complete. */
  "cut_off",
  /** A provider's answer does not follow the provider's protocol, or is a redirect. */
  "bad_response",
  "not_found",
  "method_not_allowed",
  "unsupported_media_type",
  "payload_too_large",
  /** The Host or Origin header does not name this machine. */
  "forbidden",
  "shutting_down",
  "internal",
] as const;

export type AssistantErrorCode = (typeof assistantErrorCodes)[number];

/** Creates the error for a parameter of a request; the message begins with its name. */
export function invalidParameterError(param: string, why: string): AssistantError {
  return new AssistantError("invalid_request", `${param} ${why}`, { param });
}
