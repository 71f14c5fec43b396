import { BerthError } from "../../base/errors.ts";

/** Creates the error for a source that no recipe can build without more information. */
export function undecidedSourceError(message: string, hint: string): BerthError {
  return new BerthError("invalid_request", message, {
    hint: `${hint}; or write a Dockerfile`,
  });
}
