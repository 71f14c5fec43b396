import { BerthError } from "../base/errors.ts";
import { JsonFault, parseStrictJson as parse } from "../base/strict-json.ts";
import { DEPTH_MAX, forbiddenKeys } from "../resources/plain-value.ts";

/**
 * JSON of a request body, by the rules of resources. Returns undefined for an empty body; throws
 * BerthError `invalid_request`.
 */
export function parseStrictJson(body: Buffer): unknown {
  try {
    return parse(body, { depthMax: DEPTH_MAX, forbiddenKeys });
  } catch (error) {
    if (error instanceof JsonFault) throw new BerthError("invalid_request", error.message);
    throw error;
  }
}
