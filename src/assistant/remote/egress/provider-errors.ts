import { getCountMember, getStringMember } from "../../../base/openai-wire/json-members.ts";
import type { ResponseErrors } from "../../../base/openai-wire/response-errors.ts";
import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";
import type { Provider } from "../port.ts";
import { sanitizeProviderMessage } from "../provider-http/sanitize-provider-message.ts";

export interface ProviderErrors extends ResponseErrors {
  /** Creates the error for a connection or a stream that ended before the answer was complete. */
  cutOff(): AssistantError;
}

/** Creates the errors for a provider's answers. Messages never contain `bearer`, even if the provider echoes it. */
export function createProviderErrors(
  { id }: Pick<Provider, "id">,
  bearer: string | undefined,
): ProviderErrors {
  return {
    // The error has no cause, because a parser's message quotes its input, which may contain the key.
    malformedResponse: (what) =>
      new AssistantError(
        "bad_response",
        `the answer of ${id} does not follow the chat-completions convention: ${what}. ` +
          "Check that its base URL is that of its OpenAI-compatible API",
      ),
    fromEnvelope: (envelope) =>
      new AssistantError(
        parseErrorCode(envelope),
        `${id} ended the answer with an error: ${describeEnvelope(envelope, bearer)}`,
      ),
    cutOff: () =>
      new AssistantError(
        "cut_off",
        `${id} ended the connection before the answer was complete; try again`,
      ),
  };
}

/**
 * Returns the AssistantError code for an error that a provider reports. Some providers use numbers as codes, others use
 * names.
 */
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
    sanitizeProviderMessage(JSON.stringify({ error: envelope }), bearer) ??
    "the provider gave no reason"
  );
}
