import { BerthError } from "../../base/errors.ts";

/** Something is known of the source, and not enough to build it. */
export function undecidedSourceError(message: string, hint: string): BerthError {
  return new BerthError("invalid_request", message, {
    hint: `${hint}; or write a Dockerfile`,
  });
}
