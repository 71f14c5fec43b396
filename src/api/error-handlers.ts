import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { keepOpenForBody } from "../base/http/refused-body.ts";
import type { Logger } from "../base/logger.ts";
import { toErrorResponse } from "./error-response.ts";

type SendError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void;

/** Makes all failed requests, also those with unknown paths or methods, return the same error format. */
export function installErrorHandlers(
  server: FastifyInstance,
  logger: Logger,
): { answer: SendError } {
  const routes = new AllowedMethods();

  const answer: SendError = (error, request, reply) => {
    const { status, message, headers, unexpected } = toErrorResponse(error, request.id);
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
    // An upload that is compressed on the fly has no known length. Its sender has to be authenticated.
    keepOpenForBody(request, reply, request.caller === null);
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
    const methods = getAllowedMethods(routes, path);
    const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
    if (methods.length > 0) reply.header("allow", methods.join(", "));
    void reply
      .code(404)
      .type("application/json; charset=utf-8")
      .send({
        error:
          methods.length > 0
            ? `${shown} does not take ${request.method}; it takes ${methods.join(", ")}`
            : `there is nothing at ${shown}. See /api/docs for what there is.`,
      });
  });
  return { answer };
}

/** Knows the methods of each path, to list them in the response to a request with another method. */
class AllowedMethods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = [];

  add(method: string | readonly string[], path: string): void {
    const methods = typeof method === "string" ? [method] : method;
    const source = path
      .split("/")
      .map((part) =>
        part.startsWith(":") ? "[^/]+" : part === "*" ? ".*" : part.replaceAll(".", "\\."),
      )
      .join("/");
    this.#routes.push({ pattern: new RegExp(`^${source}$`), methods });
  }

  find(path: string): string[] {
    const found = this.#routes.filter(({ pattern }) => pattern.test(path));
    return [...new Set(found.flatMap(({ methods }) => methods))].toSorted();
  }
}

/** Returns the methods of a path without HEAD, which GET implies. */
function getAllowedMethods(routes: AllowedMethods, path: string): string[] {
  return routes.find(path).filter((method) => method !== "HEAD");
}
