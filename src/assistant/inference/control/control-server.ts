import { chmod, rm } from "node:fs/promises";
import { isAbsolute } from "node:path";
import Fastify, { type FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import { ConfigError } from "../../../base/config-error.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../errors.ts";
import {
  type KnownModels,
  type ModelRegistration,
  modelIdPattern,
} from "../models/known-models.ts";
import type { Residency } from "../models/residency.ts";
import { modelView, type StateView } from "./state-view.ts";

const LoadBody = Type.Object(
  {
    id: Type.String({ pattern: modelIdPattern, maxLength: 255 }),
    /** Of the file; without one the model is known already. */
    path: Type.Optional(Type.String({ minLength: 1, maxLength: 4_096 })),
    context_tokens: Type.Optional(Type.Integer({ minimum: 16 })),
    sequences: Type.Optional(Type.Integer({ minimum: 1, maximum: 256 })),
    /** Kept in memory, and brought back after a crash, until it is unloaded. */
    pinned: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);
type LoadBody = Static<typeof LoadBody>;

const UnloadBody = Type.Object(
  { id: Type.String({ maxLength: 255 }) },
  { additionalProperties: false },
);
type UnloadBody = Static<typeof UnloadBody>;

export interface ControlOptions {
  readonly known: KnownModels;
  readonly residency: Residency;
  readonly state: () => Omit<StateView, "models">;
  readonly logger: Logger;
}

/** `sun_path` of Linux holds 108 bytes with its end mark; macOS, the shortest, 104. */
const SOCKET_PATH_BYTES_MAX = 103;

/**
 * The control socket, by which the control plane drives this daemon: HTTP over a Unix socket that only
 * the user who runs it can open. GET /state, POST /models/load, POST /models/unload.
 */
export class ControlServer implements AsyncDisposable {
  readonly #http: FastifyInstance;

  constructor(options: ControlOptions) {
    this.#http = Fastify({ forceCloseConnections: true });
    this.#http.setErrorHandler((error, _request, reply) => {
      const known = error instanceof AssistantError ? error : undefined;
      const isClientError = known === undefined && statusOf(error) < 500;
      if (!known && !isClientError)
        options.logger.error({ err: error }, "a call of the control socket failed");
      return reply.code(known ? statusByCode(known) : statusOf(error)).send({
        error: {
          code: known?.code ?? (isClientError ? "invalid_request" : "internal"),
          message: known?.message ?? (isClientError ? messageOf(error) : "the call failed"),
        },
      });
    });
    addRoutes(this.#http, options);
  }

  /** `file` is replaced where one was left behind; the data directory has one daemon at a time. */
  async listen(file: string): Promise<void> {
    // It would be cut off without a word, and the socket made somewhere else.
    if (Buffer.byteLength(file) > SOCKET_PATH_BYTES_MAX)
      throw new ConfigError(
        "the path of the data directory is too long for the control socket in it",
        "choose a shorter one with --data-dir",
      );
    await rm(file, { force: true });
    await this.#http.listen({ path: file });
    await chmod(file, 0o600);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.close();
  }
}

function addRoutes(http: FastifyInstance, options: ControlOptions): void {
  const { known, residency } = options;
  const stateNow = async (): Promise<StateView> => ({
    ...options.state(),
    models: (await residency.states()).map(modelView),
  });

  http.get("/state", stateNow);

  http.post<{ Body: LoadBody }>(
    "/models/load",
    { schema: { body: LoadBody } },
    async ({ body, raw }) => {
      if (body.path !== undefined) await known.register(registrationOf(body, body.path));
      const gone = new AbortController();
      const onClose = () => gone.abort();
      raw.socket.once("close", onClose);
      try {
        await residency.load(body.id, gone.signal);
      } finally {
        // Callers keep their connection for many calls.
        raw.socket.off("close", onClose);
      }
      return stateNow();
    },
  );

  http.post<{ Body: UnloadBody }>(
    "/models/unload",
    { schema: { body: UnloadBody } },
    async ({ body }) => {
      known.unregister(body.id);
      await residency.unload(body.id);
      return stateNow();
    },
  );
}

function registrationOf(body: LoadBody, path: string): ModelRegistration {
  if (!isAbsolute(path))
    throw new AssistantError(
      "invalid_request",
      "path has to be the absolute path of a file: the daemon may have been started anywhere",
      { param: "path" },
    );
  return {
    id: body.id,
    path,
    isPinned: body.pinned ?? true,
    contextTokens: body.context_tokens,
    sequences: body.sequences,
  };
}

function statusByCode({ code }: AssistantError): number {
  if (code === "model_not_found") return 404;
  return code === "invalid_request" ? 400 : 409;
}

function statusOf(error: unknown): number {
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  return typeof status === "number" ? status : 500;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "the request is wrong";
}
