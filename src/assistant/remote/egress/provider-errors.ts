import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";
import { getCountMember, getStringMember } from "../../inference/wire/json-members.ts";
import type { ResponseErrors } from "../../inference/wire/response-errors.ts";
import type { Provider } from "../port.ts";
import { sanitizeProviderMessage } from "../provider-http/sanitize-provider-message.ts";

export interface ProviderErrors extends ResponseErrors {
  /** The connection ended, or the stream did, before the answer had. */
  cutOff(): AssistantError;
}

/** How to speak of what a provider answers. `bearer` is never told, whatever the provider makes of it. */
export function createProviderErrors(
  { id }: Pick<Provider, "id">,
  bearer: string | undefined,
): ProviderErrors {
  return {
    // Without the cause: what a parser says quotes what it read, in which the key may be.
    malformedResponse: (what) =>
      new AssistantError(
        "bad_response",
        `${id} answered something that is not of the chat-completions convention: ${what}. ` +
          "See that its base URL is that of its OpenAI-compatible API",
      ),
    fromEnvelope: (envelope) =>
      new AssistantError(
        parseErrorCode(envelope),
        `${id} ended the answer with an error: ${describeEnvelope(envelope, bearer)}`,
      ),
    cutOff: () =>
      new AssistantError(
        "cut_off",
        `${id} ended the connection before the answer was whole; ask again`,
      ),
  };
}

/** Codes are numbers at some, names at others. */
function parseErrorCode(envelope: unknown): AssistantErrorCode {
  const number = getCountMember(envelope, "code") ?? getCountMember(envelope, "status");
  const name = `${getStringMember(envelope, "code") ?? ""} ${getStringMember(envelope, "type") ?? ""}`;
  if (number === 401 || number === 403 || /authentication|permission|api_key/.test(name))
    return "unauthorized";
  if (number === 429 || /rate_limit|quota/.test(name)) return "rate_limited";
  if (name.includes("context_length")) return "context_length_exceeded";
  if (number === 408 || name.includes("timeout")) return "timeout";
  if (number === 400 || number === 422 || name.includes("invalid_request"))
    return "invalid_request";
  return "provider_failed";
}

function describeEnvelope(envelope: unknown, bearer: string | undefined): string {
  return (
    sanitizeProviderMessage(JSON.stringify({ error: envelope }), bearer) ?? "it does not say why"
  );
}
