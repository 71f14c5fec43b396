import { parseRetryAfter } from "../../../base/retry-after.ts";
import type { AssistantErrorCode } from "../../assistant-error.ts";
import { ProviderRefusal } from "./provider-refusal.ts";
import { redactKey } from "./redact-key.ts";
import { sanitizeProviderMessage } from "./sanitize-provider-message.ts";

/** An answer whose status is not 2xx. */
export interface RefusedResponse {
  readonly providerId: string;
  readonly bearer: string | undefined;
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly location: string | undefined;
  /** The body of the answer, as far as it arrived. */
  readonly body: string;
}

/** The longest plausible Retry-After. Larger values are reduced to it. */
const RETRY_AFTER_SECONDS_MAX = 86_400;

export function createRefusal(refused: RefusedResponse, nowMs: number): ProviderRefusal {
  const { status, bearer } = refused;
  const { code, means } = interpretStatus(refused);
  const said = sanitizeProviderMessage(refused.body, bearer);
  const waitMs = parseRetryAfter(refused.retryAfter, nowMs);
  return new ProviderRefusal(
    code,
    `the provider ${refused.providerId} ${means} (${status})${said === undefined ? "" : `. It says: ${said}`}`,
    {
      status,
      retryAfterSeconds:
        waitMs === undefined
          ? undefined
          : Math.min(RETRY_AFTER_SECONDS_MAX, Math.ceil(waitMs / 1000)),
    },
  );
}

interface Meaning {
  readonly code: AssistantErrorCode;
  readonly means: string;
}

function interpretStatus(refused: RefusedResponse): Meaning {
  const { status } = refused;
  const exact = meanings[status];
  if (exact) return exact;
  if (status >= 300 && status < 400)
    return { code: "bad_response", means: describeRedirect(refused) };
  if (status >= 400 && status < 500)
    return { code: "invalid_request", means: "does not accept the request" };
  if (status >= 500 && status < 600)
    return { code: "provider_failed", means: "has failed; try again later" };
  return { code: "bad_response", means: "answers with an invalid HTTP status" };
}

const keyRejected = "does not accept the key; set another one, or sign in again";

const meanings: Readonly<Record<number, Meaning>> = {
  401: { code: "unauthorized", means: keyRejected },
  // The code is not `unauthorized`, because a missing payment concerns the account: another key would not help.
  402: { code: "rate_limited", means: "requires payment before it answers" },
  403: { code: "unauthorized", means: "does not allow this request with the key that was sent" },
  404: { code: "model_not_found", means: "has no such model, or nothing at its base_url" },
  408: { code: "timeout", means: "reports a timeout" },
  429: { code: "rate_limited", means: "accepts no more requests for now" },
  503: { code: "provider_failed", means: "is not available now; try again later" },
  529: { code: "provider_failed", means: "is overloaded; try again later" },
};

/**
 * Describes a redirect. Only the origin of the target is included, because the rest of the URL may contain anything.
 */
function describeRedirect({ location, bearer }: RefusedResponse): string {
  const to = (location !== undefined && URL.parse(location)?.origin) || "null";
  // The key is redacted in lower case, too, because `URL` converts host names to lower case.
  const clean = redactKey(redactKey(to, bearer), bearer?.toLowerCase());
  const where = to === "null" ? "elsewhere" : `to ${clean.slice(0, 200)}`;
  return (
    `redirects ${where}; Berth does not follow, because it would send the key there. If the new address is right, remove the provider ` +
    "and add it again with its new base_url"
  );
}
