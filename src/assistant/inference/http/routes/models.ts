import type { FastifyInstance } from "fastify";
import { AssistantError } from "../../../assistant-error.ts";
import type { ModelInfo } from "../../service-port.ts";
import type { InferenceHttpContext } from "../http-context.ts";

export function modelRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.get("/v1/models", async () => ({
    object: "list",
    data: (await context.service.models()).map((model) => formatModel(model)),
  }));

  // A wildcard, since ids may have slashes in them.
  server.get<{ Params: { "*": string } }>("/v1/models/*", async (request) => {
    const name = request.params["*"];
    const model = await context.service.model(name);
    if (!model) {
      throw new AssistantError(
        "model_not_found",
        `there is no model ${JSON.stringify(name.slice(0, 200))}. GET /v1/models lists those that there are`,
        { param: "model" },
      );
    }
    return formatModel(model);
  });
}

/** The contract's four fields, and what a client may want to choose by. */
function formatModel(model: ModelInfo) {
  return {
    id: model.id,
    object: "model",
    created: model.createdSeconds,
    owned_by: "berth",
    aliases: model.aliases,
    kind: model.kind,
    state: model.state,
    ...(model.state === "failed" && model.failure !== undefined ? { error: model.failure } : {}),
    context_length: model.contextTokens ?? null,
    embedding_length: model.embeddingLength ?? null,
  };
}
