/**
 * The root of every error that the assistant throws on purpose. `message` says what happened, to what
 * and what to do; it travels to callers, so it never holds a path, a secret, a prompt or a stack.
 */
export class AssistantError extends Error {
  readonly code: AssistantErrorCode;
  /** The request's parameter that is to blame, as a client wrote it: `messages[2].content`. */
  readonly param: string | undefined;
  /** When trying again may help, in whole seconds; undefined: it will not, or nobody knows. */
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

/** Every code that a caller of the assistant can meet; `docs/assistant-errors.md` explains each one. */
export const assistantErrorCodes = [
  /** The request is wrong; `param` says where. */
  "invalid_request",
  /** A parameter that is known, means something, and is not supported. */
  "unsupported_parameter",
  /** A keyword of a schema that cannot be enforced; the message has the keyword and its JSON Pointer. */
  "unsupported_schema",
  "context_length_exceeded",
  "model_not_found",
  /** No model is resident and none is known that could be loaded. */
  "no_model",
  /** A model is there and does not load: damaged, too large, of an unknown architecture. */
  "model_unusable",
  /** Loading it would need more memory than there is. */
  "insufficient_memory",
  /** What is asked of the model is not what it is for: a chat with an embedding model. */
  "model_unsuitable",
  "queue_full",
  /** Something of the caller's own is under way that has to end first. */
  "busy",
  /** More than a caller may have, or ask for in a time; the message says of what and how many. */
  "limits_exceeded",
  "timeout",
  /** Somebody who may has ended it: its own caller, with Cancel or Close. */
  "cancelled",
  /** The answer did not fit the schema, twice. */
  "invalid_output",
  /** The engine ended in the middle of the request. */
  "engine_failed",
  "ledger_unavailable",
  /** What the assistant keeps cannot be written or read: a full disk, damaged or missing files. */
  "storage_failed",
  /** Something of this name is there already. */
  "exists",
  /** It would send what nobody has allowed to leave the machine; nothing was sent. */
  "consent_required",
  /** A provider refuses the credential, or there is none. */
  "unauthorized",
  /** A provider cannot be reached: its name, its address, its certificate, the network. */
  "unreachable",
  /** A provider takes no more requests for now. */
  "rate_limited",
  /** A provider answers that it has failed itself. */
  "provider_failed",
  /** A provider's answer ended before its time. */
  "cut_off",
  /** What a provider answers is not of the convention, or is a redirect. */
  "bad_response",
  "not_found",
  "method_not_allowed",
  "unsupported_media_type",
  "payload_too_large",
  /** Host or Origin is not of this machine. */
  "forbidden",
  "shutting_down",
  "internal",
] as const;

export type AssistantErrorCode = (typeof assistantErrorCodes)[number];
