import { AssistantError, type AssistantErrorCode } from "../../errors.ts";
import { countMember, textMember } from "../../inference/wire/wire-value.ts";
import type { WireWords } from "../../inference/wire/wire-words.ts";
import type { Provider } from "../port.ts";
import { wordsOf } from "../provider-http/provider-words.ts";

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
    // Without the cause: what a parser says quotes what it read, in which the key may be.
    notUnderstood: (what) =>
      new AssistantError(
        "bad_response",
        `${id} answered something that is not of the chat-completions convention: ${what}. ` +
          "See that its base URL is that of its OpenAI-compatible API",
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
  return wordsOf(JSON.stringify({ error: envelope }), bearer) ?? "it does not say why";
}
