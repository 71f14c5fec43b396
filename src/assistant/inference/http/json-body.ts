import type { FastifyInstance } from "fastify";
import { InvalidJsonError, parseStrictJson } from "../../../base/strict-json.ts";
import { AssistantError } from "../../assistant-error.ts";

/**
 * The largest depth of a JSON body. It is far deeper than any body needs. Schemas in a body have their own limit, with
 * a better message.
 */
const DEPTH_MAX = 256;
/** Property names that are refused. `constructor` is allowed, because a schema may have a property with that name. */
const forbiddenKeys: ReadonlySet<string> = new Set(["__proto__"]);

/** Makes the server accept only JSON bodies. Other content types are refused. */
export function acceptJsonBodies(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser(
    /^application\/(?:[\w.-]+\+)?json(?:\s*;\s*charset="?utf-?8"?)?\s*;?\s*$/i,
    { parseAs: "buffer" },
    (request, body: Buffer, done) => {
      try {
        const encoding = request.headers["content-encoding"];
        if (encoding !== undefined && encoding !== "identity") {
          throw new AssistantError("unsupported_media_type", "send the body uncompressed");
        }
        done(null, parseBody(body));
      } catch (error) {
        done(error instanceof Error ? error : new Error("the body cannot be read"));
      }
    },
  );
}

function parseBody(body: Buffer): unknown {
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
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}
