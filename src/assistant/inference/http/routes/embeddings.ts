import type { FastifyInstance } from "fastify";
import { parseEmbeddingRequest } from "../embedding-request.ts";
import { checkDimensions, formatEmbeddings, truncateVector } from "../embedding-vectors.ts";
import { renameErrorParam } from "../error-params.ts";
import { getExchange, type InferenceHttpContext, reportIgnored } from "../http-context.ts";
import { addPassthrough } from "../passthrough-parameters.ts";

export function embeddingRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/embeddings", async (request, reply) => {
    const exchange = getExchange(request);
    const asked = parseEmbeddingRequest(request.body);
    const sent = addPassthrough(context.routes, asked.embed, asked);
    reportIgnored(context, request, reply, sent.unknown);
    const { dimensions, embed, encoding, includeCounts } = asked;
    if (dimensions !== undefined && embed.model !== undefined) {
      // If the dimensions of the model are known, an invalid `dimensions` is refused before the texts are embedded.
      checkDimensions(dimensions, (await context.service.model(embed.model))?.embeddingLength);
    }
    const { model, ledgerSeq, vectors, tokens } = await context.service
      .embed({ ...sent.request, asker: exchange.asker }, exchange.signal)
      .catch((error: unknown) => {
        throw renameErrorParam(error, { prompt: "prompt" });
      });
    const total = tokens.reduce((sum, count) => sum + count, 0);
    Object.assign(exchange.facts, { model, ledgerSeq, promptTokens: total });
    checkDimensions(dimensions, vectors[0]?.length);
    const kept =
      dimensions === undefined
        ? vectors
        : vectors.map((vector) => truncateVector(vector, dimensions));
    const data = await formatEmbeddings(
      kept,
      encoding,
      exchange.signal,
      includeCounts ? tokens : undefined,
    );
    const usage = { prompt_tokens: total, total_tokens: total };
    reply.type("application/json; charset=utf-8");
    return `{"object":"list","model":${JSON.stringify(model)},"data":${data},"usage":${JSON.stringify(usage)}}`;
  });
}
