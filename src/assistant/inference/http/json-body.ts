import type { FastifyInstance } from "fastify";
import { InvalidJsonError, parseStrictJson } from "../../../base/strict-json.ts";
import { AssistantError } from "../../assistant-error.ts";

/** Schemas stand deep in a body, and have a limit of their own that says more. */
const DEPTH_MAX = 256;
/** A schema may well have a property that is called `constructor`. */
const forbiddenKeys: ReadonlySet<string> = new Set(["__proto__"]);

/** JSON is the one thing that bodies may hold; what else comes is refused by its type. */
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

/** The body as an object, without the parameters that are null: clients write those for absent ones. */
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
