import { AssistantError } from "../../assistant-error.ts";
import type { ProviderStatus } from "../port.ts";

/**
 * Derives a provider's status from the result of a request. If the provider only refused this request, its status is
 * `ok`.
 */
export function getStatusAfter(error: unknown): ProviderStatus {
  if (error === undefined) return "ok";
  if (!(error instanceof AssistantError)) return "failed";
  switch (error.code) {
    case "unauthorized":
      return "unauthorized";
    case "rate_limited":
      return "rate_limited";
    case "unreachable":
    case "timeout":
      return "unreachable";
    case "provider_failed":
    case "cut_off":
    case "bad_response":
      return "failed";
    default:
      return "ok";
  }
}
