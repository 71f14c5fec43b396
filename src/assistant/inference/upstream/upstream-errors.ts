import {
  AssistantError,
  type AssistantErrorCode,
  assistantErrorCodes,
} from "../../assistant-error.ts";
import { getMember, getStringMember } from "../wire/json-members.ts";
import type { ResponseErrors } from "../wire/response-errors.ts";

/** Longer messages are no messages. */
const MESSAGE_CHARACTERS_MAX = 2_000;

/** The error of an answer that is none of 200. `retryAfter` is the header. */
export function parseErrorResponse(
  status: number,
  body: unknown,
  retryAfter: string | undefined,
): AssistantError {
  const error = getMember(body, "error");
  const seconds = retryAfter === undefined ? Number.NaN : Number(retryAfter);
  return error === undefined
    ? malformedResponseError(`status ${status}`)
    : parseErrorEnvelope(
        error,
        Number.isInteger(seconds) && seconds >= 0 ? seconds : undefined,
        status,
      );
}

/** The error of an envelope, as an answer's body and as the last event of a stream. */
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
    oneLine(getStringMember(envelope, "message") ?? "it did not say why"),
    {
      param: param === undefined ? undefined : toServiceParam(param),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    },
  );
}

/** What came is not what the system instance says: another program may have its port. */
export function malformedResponseError(what: string, cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    `what answers in place of the system instance is not understood (${what}). ` +
      "See that the upstream is the port of `berth assistant --system` of this version",
    { cause },
  );
}

/** What goes wrong in an answer of the system instance, which tells errors of its own. */
export const upstreamErrors: ResponseErrors = {
  malformedResponse: malformedResponseError,
  fromEnvelope: (envelope) => parseErrorEnvelope(envelope),
};

/** The connection ended in the middle of an answer, and nothing of it is tried again. */
export function connectionLostError(cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    "the system instance ended in the middle of the answer; ask again when it is up again",
    { cause },
  );
}

export function unreachableUpstreamError(url: URL, cause: unknown): AssistantError {
  return new AssistantError(
    "no_model",
    `the system instance does not answer at ${url.origin}, so there are no local models. ` +
      "Start it with `berth up`, or alone with `berth assistant --system`",
    { cause },
  );
}

export function silenceTimeoutError(seconds: number): AssistantError {
  return new AssistantError(
    "timeout",
    `the system instance has said nothing for ${seconds} s; see its log`,
  );
}

function codeForStatus(status: number): AssistantErrorCode {
  return status >= 400 && status < 500 ? "invalid_request" : "engine_failed";
}

/** What a parameter is called on the wire, and in the port. The transport turns it back for its client. */
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
