import { getMember, getStringMember } from "../../../base/openai-wire/json-members.ts";
import type { ResponseErrors } from "../../../base/openai-wire/response-errors.ts";
import {
  AssistantError,
  type AssistantErrorCode,
  assistantErrorCodes,
} from "../../assistant-error.ts";

/** Messages with more characters than this are cut off. */
const MESSAGE_CHARACTERS_MAX = 2_000;

/** Returns the error of an answer whose status is not 200. `retryAfter` is the value of its Retry-After header. */
export function parseErrorResponse(
  status: number,
  body: unknown,
  retryAfter: string | undefined,
): AssistantError {
  const error = getMember(body, "error");
  const seconds = retryAfter === undefined ? Number.NaN : Number(retryAfter);
  return error === undefined
    ? malformedResponseError(`the answer has the status ${status}`)
    : parseErrorEnvelope(
        error,
        Number.isInteger(seconds) && seconds >= 0 ? seconds : undefined,
        status,
      );
}

/**
 * Returns the error that an object of the form `{"error": {...}}` describes. Such an object is the body of a failed
 * answer, or the last event of a stream.
 */
export function parseErrorEnvelope(
  envelope: unknown,
  retryAfterSeconds?: number,
  status = 500,
): AssistantError {
  const code = getStringMember(envelope, "code");
  const known = assistantErrorCodes.find((name) => name === code) ?? codeForStatus(status);
  const param = getStringMember(envelope, "param");
  return new AssistantError(
    known,
    oneLine(getStringMember(envelope, "message") ?? "the system instance gave no reason"),
    {
      param: param === undefined ? undefined : toServiceParam(param),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    },
  );
}

/**
 * Creates the error for an answer that `berth assistant --system` never sends. Probably another program listens on its
 * port.
 */
export function malformedResponseError(what: string, cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    `the answer at the address of the system instance cannot be read (${what}). ` +
      "Check that the upstream is the port of `berth assistant --system` of this version",
    { cause },
  );
}

/**
 * Creates the errors for answers of the system instance (`berth assistant --system`), which sends Berth's own error
 * codes.
 */
export const upstreamErrors: ResponseErrors = {
  malformedResponse: malformedResponseError,
  fromEnvelope: (envelope) => parseErrorEnvelope(envelope),
};

/** Creates the error for a connection that ended during an answer. The request is not sent again. */
export function connectionLostError(cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    "the system instance exited during the answer; send the request again when it is running",
    { cause },
  );
}

export function unreachableUpstreamError(url: URL, cause: unknown): AssistantError {
  return new AssistantError(
    "no_model",
    `the system instance does not answer at ${url.origin}, so there are no local models. ` +
      "Start it with `berth up`, or start only the assistant with `berth assistant --system`",
    { cause },
  );
}

export function silenceTimeoutError(seconds: number): AssistantError {
  return new AssistantError(
    "timeout",
    `the system instance has sent nothing for ${seconds} s; see its log`,
  );
}

function codeForStatus(status: number): AssistantErrorCode {
  return status >= 400 && status < 500 ? "invalid_request" : "engine_failed";
}

/**
 * Maps parameter names of the wire format to names of InferenceService. Each transport renames the latter for its
 * clients.
 */
const serviceParamNames: readonly (readonly [RegExp, string])[] = [
  [/^messages\b.*/, "prompts"],
  [/^prompt\b/, "prompts"],
  [/^input\b/, "texts"],
  [/^response_format\.json_schema\.schema/, "guide.schema"],
  [/^response_format\b.*/, "guide"],
  [/^(tools\[\d+\])\.function\b/, "$1"],
  [/^tool_choice\b/, "toolChoice"],
  [/^parallel_tool_calls\b/, "parallelToolCalls"],
  [/^max_(completion_)?tokens\b/, "maxTokens"],
  [/^keep_alive\b/, "keepAliveMs"],
  [/^svc_priority\b/, "priority"],
  [/^top_logprobs\b/, "sampling.logprobs"],
  [/^(temperature|seed|logprobs)\b/, "sampling.$1"],
  [/^(top|min|logit|repeat|presence|frequency)_(\w)/, "sampling.$1_$2"],
];

function toServiceParam(param: string): string {
  const found = serviceParamNames.find(([pattern]) => pattern.test(param));
  if (!found) return param;
  const named = param.replace(found[0], found[1]);
  return named.startsWith("sampling.")
    ? named.replace(/_(\w)/, (_, letter: string) => letter.toUpperCase())
    : named;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, MESSAGE_CHARACTERS_MAX);
}
