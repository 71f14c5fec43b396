import type { FastifyInstance } from "fastify";
import { embeddingRequestOf } from "../embedding-request.ts";
import { checkDimensions, embeddingsText, shortened } from "../embedding-vectors.ts";
import { inWireWords } from "../error-words.ts";
import { sentAlong } from "../further-parameters.ts";
import { exchangeOf, type InferenceHttpContext, tellIgnored } from "../http-context.ts";

export function embeddingRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/embeddings", async (request, reply) => {
    const exchange = exchangeOf(request);
    const asked = embeddingRequestOf(request.body);
    const sent = sentAlong(context.routes, asked.embed, asked);
    tellIgnored(context, request, reply, sent.unknown);
    const { dimensions, embed, encoding, tellsCounts } = asked;
    if (dimensions !== undefined && embed.model !== undefined) {
      // What is known before the work need not wait for it.
      checkDimensions(dimensions, (await context.service.model(embed.model))?.embeddingLength);
    }
    const { model, ledgerSeq, vectors, tokens } = await context.service
      .embed(sent.request, exchange.signal)
      .catch((error: unknown) => {
        throw inWireWords(error, { prompt: "prompt" });
      });
    const total = tokens.reduce((sum, count) => sum + count, 0);
    Object.assign(exchange.facts, { model, ledgerSeq, promptTokens: total });
    checkDimensions(dimensions, vectors[0]?.length);
    const kept =
      dimensions === undefined ? vectors : vectors.map((vector) => shortened(vector, dimensions));
    const data = await embeddingsText(
      kept,
      encoding,
      exchange.signal,
      tellsCounts ? tokens : undefined,
    );
    const usage = { prompt_tokens: total, total_tokens: total };
    reply.type("application/json; charset=utf-8");
    return `{"object":"list","model":${JSON.stringify(model)},"data":${data},"usage":${JSON.stringify(usage)}}`;
  });
}
