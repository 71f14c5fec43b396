import type { FastifyInstance } from "fastify";
import { answerStream, answerWhole } from "../answering.ts";
import { CompletionAnswer } from "../completion-answer.ts";
import { CompletionChunks, completionObject } from "../completion-chunks.ts";
import { completionRequestOf } from "../completion-request.ts";
import { sentAlong } from "../further-parameters.ts";
import { exchangeOf, type InferenceHttpContext, tellIgnored } from "../http-context.ts";

export function completionRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/completions", async (request, reply) => {
    const exchange = exchangeOf(request);
    const asked = completionRequestOf(request.body);
    const sent = sentAlong(context.routes, asked.generate, asked);
    tellIgnored(context, request, reply, sent.unknown);
    const answering = {
      context,
      exchange,
      reply,
      idPrefix: "cmpl",
      words: { prompt: "prompt", schema: asked.schemaParam },
    } as const;
    const events = context.service.generate(sent.request, exchange.signal);
    const { echoes } = asked;
    if (!asked.stream.isStream)
      return answerWhole(answering, events, new CompletionAnswer(echoes, asked));
    const stream = { object: completionObject, ...asked.stream };
    await answerStream(
      answering,
      events,
      stream,
      (head) => new CompletionChunks(head, echoes, stream),
    );
    return reply;
  });
}
