import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BerthError, getErrorCode, NotFoundError } from "../base/errors.ts";
import { keepOpenForBody } from "../base/http/unread-body.ts";
import type { Logger } from "../base/logger.ts";
import { formatBytes } from "../base/units.ts";
import { toErrorResponse } from "./error-response.ts";

type SendError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** Makes all failed requests return the same error format, including requests with unknown paths or methods. */
export function installErrorHandlers(
  server: FastifyInstance,
  logger: Logger,
): { answer: SendError } {
  const routes = new AllowedMethods();

  const answer: SendError = (error, request, reply) => {
    const response = toErrorResponse(explainBodyError(error, request), request.id);
    const { status, message, headers, unexpected } = response;
    if (unexpected || status === 500) {
      logger.error(
        {
          err: error,
          requestId: request.id,
          method: request.method,
          route: request.routeOptions.url,
        },
        "a request failed",
      );
    }
    keepOpenForBody(request, reply);
    void reply
      .code(status)
      .header("x-request-id", request.id)
      .headers(headers)
      .type("application/json; charset=utf-8")
      .serializer((payload: unknown) => JSON.stringify(payload))
      .send({ error: message });
  };

  server.setErrorHandler((error, request, reply) => answer(error, request, reply));
  server.addHook("onRoute", ({ method, path }) => routes.add(method, path));
  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const methods = routes.find(path);
    const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
    // If the path allows the method, the route itself has thrown a NotFoundError, because the path names a resource
    // that does not exist.
    if (methods.length === 0 || methods.includes(request.method)) {
      answer(new NotFoundError(`there is nothing at ${shown}`, "see /api/docs"), request, reply);
      return;
    }
    const allowed = methods.join(", ");
    reply.header("allow", allowed);
    const message = `${shown} does not accept ${request.method}; it accepts ${allowed}`;
    answer(new BerthError("method_not_allowed", message), request, reply);
  });
  return { answer };
}

/**
 * Converts Fastify's errors about the size and the media type of a body. The messages state what the requested route
 * accepts, because routes have different limits and types.
 */
function explainBodyError(error: unknown, { routeOptions }: FastifyRequest): unknown {
  switch (getErrorCode(error)) {
    case "FST_ERR_CTP_BODY_TOO_LARGE": {
      const limit = formatBytes(routeOptions.bodyLimit);
      const message = `the request body is too large: at most ${limit} are accepted here`;
      return new BerthError("payload_too_large", message);
    }
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE": {
      const type = routeOptions.schema?.consumes?.[0] ?? "application/json";
      const message = `the body is not ${type === "application/json" ? "JSON" : type}`;
      const hint = `send it with Content-Type: ${type}`;
      return new BerthError("unsupported_media_type", message, { hint });
    }
    default:
      return error;
  }
}

/** Stores the methods of each path, to list them in the response to a request with another method. */
class AllowedMethods {
  readonly #routes: { readonly path: string; readonly methods: readonly string[] }[] = [];

  add(method: string | readonly string[], path: string): void {
    this.#routes.push({ path, methods: typeof method === "string" ? [method] : method });
  }

  /**
   * Returns the HTTP methods that a path allows, sorted; an empty list for an unknown path. HEAD is left out, because
   * GET implies it. If a route without parameters has exactly this path, routes with parameters are ignored.
   */
  find(path: string): string[] {
    const same = this.#routes.filter((route) => route.path === path);
    const found =
      same.length > 0 ? same : this.#routes.filter((route) => toPattern(route.path).test(path));
    const methods = new Set(found.flatMap((route) => route.methods));
    methods.delete("HEAD");
    return [...methods].toSorted();
  }
}

function toPattern(path: string): RegExp {
  const source = path
    .split("/")
    .map((part) =>
      part.startsWith(":") ? "[^/]+" : part === "*" ? ".*" : part.replaceAll(".", "\\."),
    )
    .join("/");
  return new RegExp(`^${source}$`);
}
