import { AssistantError, type AssistantErrorCode } from "../../errors.ts";
import { countMember, member, textMember } from "../../inference/wire/wire-value.ts";
import type { WireWords } from "../../inference/wire/wire-words.ts";
import type { Provider } from "../port.ts";

/** What a provider says of an error is told so far. */
const TOLD_CHARACTERS_MAX = 300;

export interface ProviderWords extends WireWords {
  /** The connection ended, or the stream did, before the answer had. */
  cutOff(): AssistantError;
}

/** How to speak of what a provider answers. `bearer` is never told, whatever the provider makes of it. */
export function providerWords(
  { id }: Pick<Provider, "id">,
  bearer: string | undefined,
): ProviderWords {
  return {
    notUnderstood: (what, cause) =>
      new AssistantError(
        "bad_response",
        `${id} answered something that is not of the chat-completions convention: ${what}. ` +
          "See that its base URL is that of its OpenAI-compatible API",
        { cause },
      ),
    errorOf: (envelope) =>
      new AssistantError(
        codeOf(envelope),
        `${id} ended the answer with an error: ${told(envelope, bearer)}`,
      ),
    cutOff: () =>
      new AssistantError(
        "cut_off",
        `${id} ended the connection before the answer was whole; ask again`,
      ),
  };
}

/** Codes are numbers at some, names at others. */
function codeOf(envelope: unknown): AssistantErrorCode {
  const number = countMember(envelope, "code") ?? countMember(envelope, "status");
  const name = `${textMember(envelope, "code") ?? ""} ${textMember(envelope, "type") ?? ""}`;
  if (number === 401 || number === 403 || /authentication|permission|api_key/.test(name))
    return "unauthorized";
  if (number === 429 || /rate_limit|quota/.test(name)) return "rate_limited";
  if (name.includes("context_length")) return "context_length_exceeded";
  if (number === 408 || name.includes("timeout")) return "timeout";
  if (number === 400 || number === 422 || name.includes("invalid_request"))
    return "invalid_request";
  return "provider_failed";
}

function told(envelope: unknown, bearer: string | undefined): string {
  const message =
    typeof envelope === "string"
      ? envelope
      : (textMember(envelope, "message") ?? textMember(member(envelope, "error"), "message") ?? "");
  const safe = bearer === undefined ? message : message.replaceAll(bearer, "(the key)");
  const line = safe.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
  return line === "" ? "it does not say why" : line.slice(0, TOLD_CHARACTERS_MAX);
}
