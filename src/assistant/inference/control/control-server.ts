import { chmod, rm } from "node:fs/promises";
import Fastify, { type FastifyInstance } from "fastify";
import type { Logger } from "../../../base/logger.ts";
import { ConfigError } from "../../../config/config-error.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type ControlModelRoutesOptions, controlModelRoutes } from "./control-model-routes.ts";
import { listenerRoutes, type OpenListeners } from "./listener-routes.ts";

export interface ControlServerOptions extends ControlModelRoutesOptions {
  readonly openListeners: OpenListeners;
  readonly logger: Logger;
}

/**
 * The longest path of a socket that every system accepts. `sun_path` has 108 bytes on Linux and 104 on macOS, including
 * the terminator.
 */
const SOCKET_PATH_BYTES_MAX = 103;

/**
 * The control socket, through which the control plane controls this daemon: HTTP over a Unix socket that
 * only the daemon's user can open.
 */
export class ControlServer implements AsyncDisposable {
  readonly #http: FastifyInstance;

  constructor(options: ControlServerOptions) {
    this.#http = Fastify({
      forceCloseConnections: true,
      // Requests with unknown members or wrong types are refused, because Fastify would otherwise remove or convert
      // such values.
      ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
    });
    this.#http.setErrorHandler((error, _request, reply) => {
      const known = error instanceof AssistantError ? error : undefined;
      const isClientError = known === undefined && getStatusCode(error) < 500;
      if (!known && !isClientError)
        options.logger.error({ err: error }, "a request to the control socket failed");
      return reply.code(known ? toStatusCode(known) : getStatusCode(error)).send({
        error: {
          code: known?.code ?? (isClientError ? "invalid_request" : "internal"),
          message: known?.message ?? (isClientError ? messageOf(error) : "the request failed"),
        },
      });
    });
    controlModelRoutes(this.#http, options);
    listenerRoutes(this.#http, options.openListeners);
  }

  /**
   * Starts listening. A socket file that an earlier daemon left behind is replaced, because the data directory has only
   * one daemon at a time.
   */
  async listen(file: string): Promise<void> {
    // The system would truncate a longer path silently and create the socket at another place.
    if (Buffer.byteLength(file) > SOCKET_PATH_BYTES_MAX)
      throw new ConfigError(
        "the path of the data directory is too long for its control socket",
        "choose a shorter path with --data-dir",
      );
    await rm(file, { force: true });
    await this.#http.listen({ path: file });
    await chmod(file, 0o600);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.close();
  }
}

function toStatusCode({ code }: AssistantError): number {
  if (code === "model_not_found") return 404;
  return code === "invalid_request" ? 400 : 409;
}

function getStatusCode(error: unknown): number {
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  return typeof status === "number" ? status : 500;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "the request is invalid";
}
