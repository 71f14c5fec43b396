import type { FastifyReply, FastifyRequest } from "fastify";
import { AssistantError } from "../../assistant-error.ts";
import { inferenceErrorTable } from "./inference-error-table.ts";

/** Of a body that is refused, this much is still read, and thrown away. */
const REFUSED_BYTES_MAX = 64 * 2 ** 20;
/** A client that is not told when to come back would come back at once. */
const QUEUE_FULL_RETRY_SECONDS = 1;

/** The one form of an error, as an answer's body and as an event of a stream. */
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

/** What was thrown, as the error that its caller sees. What nobody expected says nothing of itself. */
export function toAssistantError(error: unknown): AssistantError {
  if (error instanceof AssistantError) return error;
  const { code, statusCode } = readErrorProperties(error);
  const known = frameworkErrors[code];
  if (known) return known();
  if (statusCode >= 400 && statusCode < 500) {
    return new AssistantError("invalid_request", "the request cannot be read", { cause: error });
  }
  return new AssistantError("internal", "something went wrong that nobody expected; see the log", {
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
  if (isBodyDrained(request)) reply.removeHeader("connection");
  void reply
    .code(row.status)
    .type("application/json; charset=utf-8")
    .serializer((payload: unknown) => JSON.stringify(payload))
    .send(createErrorEnvelope(known));
}

/**
 * A connection that is cut while the body is still coming costs the sender the answer: it sees an error
 * of the network. A body of bearable length is rather read to its end; one without a length has no
 * more time than any request.
 */
function isBodyDrained(request: FastifyRequest): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  if (length !== undefined) return Number(length) <= REFUSED_BYTES_MAX;
  return encoding !== undefined;
}

const frameworkErrors: Readonly<Record<string, () => AssistantError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () =>
    new AssistantError("payload_too_large", "the body is larger than the 4 MiB that are taken"),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new AssistantError(
      "unsupported_media_type",
      "the body has to be JSON: send it with the header content-type: application/json",
    ),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new AssistantError("invalid_request", "the body is not as long as content-length says"),
  FST_ERR_BAD_URL: () =>
    new AssistantError("invalid_request", "the path holds a % that is not followed by two digits"),
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
