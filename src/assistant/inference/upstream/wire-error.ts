import { AssistantError, type AssistantErrorCode, assistantErrorCodes } from "../../errors.ts";
import { member, textMember } from "../wire/wire-value.ts";
import type { WireWords } from "../wire/wire-words.ts";

/** Longer messages are no messages. */
const MESSAGE_CHARACTERS_MAX = 2_000;

/** The error of an answer that is none of 200. `retryAfter` is the header. */
export function errorOfAnswer(
  status: number,
  body: unknown,
  retryAfter: string | undefined,
): AssistantError {
  const error = member(body, "error");
  const seconds = retryAfter === undefined ? Number.NaN : Number(retryAfter);
  return error === undefined
    ? notUnderstood(`status ${status}`)
    : errorOf(error, Number.isInteger(seconds) && seconds >= 0 ? seconds : undefined, status);
}

/** The error of an envelope, as an answer's body and as the last event of a stream. */
export function errorOf(
  envelope: unknown,
  retryAfterSeconds?: number,
  status = 500,
): AssistantError {
  const code = textMember(envelope, "code");
  const known = assistantErrorCodes.find((name) => name === code) ?? codeOf(status);
  const param = textMember(envelope, "param");
  return new AssistantError(
    known,
    oneLine(textMember(envelope, "message") ?? "it did not say why"),
    {
      param: param === undefined ? undefined : portParam(param),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    },
  );
}

/** What came is not what the system instance says: another program may have its port. */
export function notUnderstood(what: string, cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    `what answers in place of the system instance is not understood (${what}). ` +
      "See that the upstream is the port of `berth assistant --system` of this version",
    { cause },
  );
}

/** What goes wrong in an answer of the system instance, which tells errors of its own. */
export const upstreamWords: WireWords = { notUnderstood, errorOf: (envelope) => errorOf(envelope) };

/** The connection ended in the middle of an answer, and nothing of it is tried again. */
export function cutOff(cause?: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    "the system instance ended in the middle of the answer; ask again when it is up again",
    { cause },
  );
}

export function nobodyThere(url: URL, cause: unknown): AssistantError {
  return new AssistantError(
    "no_model",
    `the system instance does not answer at ${url.origin}, so there are no local models. ` +
      "Start it with `berth up`, or alone with `berth assistant --system`",
    { cause },
  );
}

export function silentFor(seconds: number): AssistantError {
  return new AssistantError(
    "timeout",
    `the system instance has said nothing for ${seconds} s; see its log`,
  );
}

function codeOf(status: number): AssistantErrorCode {
  return status >= 400 && status < 500 ? "invalid_request" : "engine_failed";
}

/** What a parameter is called on the wire, and in the port. The transport turns it back for its client. */
const names: readonly (readonly [RegExp, string])[] = [
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

function portParam(param: string): string {
  const found = names.find(([pattern]) => pattern.test(param));
  if (!found) return param;
  const named = param.replace(found[0], found[1]);
  return named.startsWith("sampling.")
    ? named.replace(/_(\w)/, (_, letter: string) => letter.toUpperCase())
    : named;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, MESSAGE_CHARACTERS_MAX);
}
