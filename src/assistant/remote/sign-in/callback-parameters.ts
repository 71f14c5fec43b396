import { SignInFailure, toLoggableCode } from "./sign-in-failure.ts";

/**
 * Returns the authorization code of a callback whose state has been verified. Throws SignInFailure if there is no code.
 */
export function readCode(parameters: URLSearchParams): string {
  const error = parameters.getAll("error");
  if (error.length > 0)
    throw error.length === 1 && error[0] === "access_denied"
      ? new SignInFailure("denied_by_user", "access_denied")
      : new SignInFailure("exchange_failed", toLoggableCode(error[0]));
  const code = getSingle(parameters, "code");
  if (code === undefined) throw new SignInFailure("exchange_failed", "no_code");
  return code;
}

/** Returns a query parameter if it occurs exactly once and is not empty. */
export function getSingle(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  return values.length === 1 && values[0] !== "" ? values[0] : undefined;
}
