import * as oauth from "oauth4webapi";
import { AssistantError } from "../../assistant-error.ts";
import { SignInFailure, toLoggableCode } from "./sign-in-failure.ts";

/**
 * Turns an error of exchanging the code into a SignInFailure. The OAuth library's error is never set as the cause,
 * because it contains the provider's answer, which may contain tokens.
 */
export function toSignInError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof SignInFailure || error instanceof AssistantError) return error;
  return isOtherIssuer(error)
    ? new SignInFailure("issuer_mismatch", "iss_of_the_id_token")
    : new SignInFailure("exchange_failed", getReason(error));
}

/** Turns an error of renewing a session into an AssistantError. */
export function toRefreshError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof AssistantError) return error;
  const status = getStatus(error);
  if (status === 429)
    return new AssistantError(
      "rate_limited",
      "the provider limits the rate of renewals; wait before you try again",
    );
  if (status !== undefined && status >= 500)
    return new AssistantError(
      "provider_failed",
      `the provider failed to renew the session (${status})`,
    );
  if (status === 400 || status === 401 || status === 403)
    return new AssistantError("unauthorized", "the session has ended; sign in again");
  return new AssistantError("bad_response", "the provider's answer contains no renewed session");
}

function getReason(error: unknown): string {
  if (error instanceof oauth.ResponseBodyError) return toLoggableCode(error.error);
  return error instanceof Error && "code" in error ? toLoggableCode(error.code) : "unknown";
}

function isOtherIssuer(error: unknown): boolean {
  if (!(error instanceof oauth.OperationProcessingError)) return false;
  const { cause } = error;
  return (
    error.code === oauth.JWT_CLAIM_COMPARISON &&
    typeof cause === "object" &&
    cause !== null &&
    "claim" in cause &&
    cause.claim === "iss"
  );
}

function getStatus(error: unknown): number | undefined {
  if (error instanceof oauth.ResponseBodyError) return error.status;
  if (error instanceof oauth.WWWAuthenticateChallengeError) return error.status;
  if (error instanceof oauth.OperationProcessingError && error.cause instanceof Response)
    return error.cause.status;
  return undefined;
}
