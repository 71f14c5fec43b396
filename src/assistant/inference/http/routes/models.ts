import type { FastifyInstance } from "fastify";
import { AssistantError } from "../../../assistant-error.ts";
import type { ModelInfo } from "../../service-port.ts";
import { getExchange, type InferenceHttpContext } from "../http-context.ts";

export function modelRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.get("/v1/models", async (request) => {
    const models = await context.service.models(getExchange(request).asker);
    return { object: "list", data: models.map((model) => formatModel(model)) };
  });

  // The route has a wildcard, because model ids may contain slashes.
  server.get<{ Params: { "*": string } }>("/v1/models/*", async (request) => {
    const name = request.params["*"];
    const model = await context.service.model(name);
    if (!model) {
      throw new AssistantError(
        "model_not_found",
        `there is no model ${JSON.stringify(name.slice(0, 200))}. GET /v1/models lists all models`,
        { param: "model" },
      );
    }
    return formatModel(model);
  });
}

/** Formats a model with OpenAI's four members, and with further members that help clients to choose a model. */
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
