import type { FastifyRequest } from "fastify";
import { InvalidJsonError, parseStrictJson } from "../../../base/strict-json.ts";
import { AssistantError } from "../../assistant-error.ts";

/**
 * The largest depth of a JSON body. It is far deeper than any body needs. Schemas in a body have their own limit, with
 * a better message.
 */
const DEPTH_MAX = 256;
/**
 * The largest number of members of a body at its top level, far more than the API has parameters. A hundred thousand
 * members would take hundreds of milliseconds, because unknown parameters are copied: a provider may know them.
 */
const MEMBERS_MAX = 1_024;
/**
 * Property names that are refused, because a property `__proto__` could change the prototype of an object.
 * `constructor` is allowed, because a schema may have a property with that name.
 */
const forbiddenKeys: ReadonlySet<string> = new Set(["__proto__"]);

/** The content types that are accepted. */
export const jsonContentType =
  /^application\/(?:[\w.-]+\+)?json(?:\s*;\s*charset="?utf-?8"?)?\s*;?\s*$/i;

/** Parses the body of a request. Throws AssistantError. */
export function parseJsonBody(body: Buffer, request: FastifyRequest): unknown {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    throw new AssistantError("unsupported_media_type", "send the body uncompressed");
  }
  try {
    return parseStrictJson(body, { depthMax: DEPTH_MAX, forbiddenKeys });
  } catch (error) {
    if (error instanceof InvalidJsonError)
      throw new AssistantError("invalid_request", error.message);
    throw error;
  }
}

/**
 * Returns the body as an object. Parameters with the value null are removed, because clients send null for parameters
 * that are not set.
 */
export function parseObject(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new AssistantError(
      "invalid_request",
      body === undefined
        ? "the request needs a body: a JSON object"
        : "the body has to be a JSON object",
    );
  }
  const members = Object.entries(body);
  if (members.length > MEMBERS_MAX)
    throw new AssistantError("invalid_request", `the body may have at most ${MEMBERS_MAX} members`);
  return Object.fromEntries(members.filter(([, value]) => value !== null));
}
