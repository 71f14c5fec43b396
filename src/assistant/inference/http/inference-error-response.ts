import type { FastifyReply, FastifyRequest } from "fastify";
import { keepOpenForBody } from "../../../base/http/unread-body.ts";
import { AssistantError } from "../../assistant-error.ts";
import { inferenceErrorTable } from "./inference-error-table.ts";

/** The Retry-After that is sent if no better value is known. Without the header, clients would retry immediately. */
const QUEUE_FULL_RETRY_SECONDS = 1;

/** An error in OpenAI's format, as the body of a response or as an event of a stream. */
export interface ErrorEnvelope {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

export function createErrorEnvelope(error: AssistantError): ErrorEnvelope {
  return {
    error: {
      message: error.message,
      type: inferenceErrorTable[error.code].type,
      param: error.param ?? null,
      code: error.code,
    },
  };
}

/** Converts a thrown value to the error for the client. Details of unexpected errors are not revealed. */
export function toAssistantError(error: unknown): AssistantError {
  if (error instanceof AssistantError) return error;
  const { code, statusCode } = readErrorProperties(error);
  const known = frameworkErrors[code];
  if (known) return known();
  if (statusCode >= 400 && statusCode < 500) {
    return new AssistantError("invalid_request", "the request cannot be read", { cause: error });
  }
  return new AssistantError("internal", "an unexpected error occurred; see the log", {
    cause: error,
  });
}

export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const known = toAssistantError(error);
  const row = inferenceErrorTable[known.code];
  const retryAfter =
    known.retryAfterSeconds ?? (known.code === "queue_full" ? QUEUE_FULL_RETRY_SECONDS : undefined);
  if (retryAfter !== undefined) reply.header("retry-after", String(retryAfter));
  if (row.retry === false) reply.header("x-should-retry", "false");
  keepOpenForBody(request, reply);
  void reply
    .code(row.status)
    .type("application/json; charset=utf-8")
    .serializer((payload: unknown) => JSON.stringify(payload))
    .send(createErrorEnvelope(known));
}

const frameworkErrors: Readonly<Record<string, () => AssistantError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new AssistantError("payload_too_large", "the body is larger than the limit of 4 MiB"),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new AssistantError(
      "unsupported_media_type",
      "the body has to be JSON: send it with the header content-type: application/json",
    ),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new AssistantError("invalid_request", "the length of the body differs from content-length"),
  FST_ERR_BAD_URL: () =>
    new AssistantError(
      "invalid_request",
      "the path contains a % that is not followed by two hexadecimal digits",
    ),
  FST_ERR_MAX_PARAM_LENGTH: () => new AssistantError("not_found", "the path is too long"),
};

function readErrorProperties(error: unknown): {
  readonly code: string;
  readonly statusCode: number;
} {
  if (typeof error !== "object" || error === null) return { code: "", statusCode: 0 };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const statusCode =
    "statusCode" in error && typeof error.statusCode === "number" ? error.statusCode : 0;
  return { code, statusCode };
}
