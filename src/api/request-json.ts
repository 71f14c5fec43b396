import { BerthError } from "../base/errors.ts";
import { InvalidJsonError, parseStrictJson as parse } from "../base/strict-json.ts";
import { forbiddenKeys, VALUE_DEPTH_MAX } from "../resources/plain-value.ts";

/**
 * Parses a request body as JSON with the limits for resources. Returns undefined for an empty body. Throws BerthError
 * `invalid_request`.
 */
export function parseRequestJson(body: Buffer): unknown {
  try {
    return parse(body, { depthMax: VALUE_DEPTH_MAX, forbiddenKeys });
  } catch (error) {
    if (error instanceof InvalidJsonError) throw new BerthError("invalid_request", error.message);
    throw error;
  }
}
