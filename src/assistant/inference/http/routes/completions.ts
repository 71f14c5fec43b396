import type { FastifyInstance } from "fastify";
import { CompletionAnswer } from "../completion-answer.ts";
import { CompletionChunks, completionObject } from "../completion-chunks.ts";
import { parseCompletionRequest } from "../completion-request.ts";
import { getExchange, type InferenceHttpContext, reportIgnored } from "../http-context.ts";
import { addPassthrough } from "../passthrough-parameters.ts";
import { collectAnswer, streamAnswer } from "../send-answer.ts";

export function completionRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/completions", async (request, reply) => {
    const exchange = getExchange(request);
    const asked = parseCompletionRequest(request.body);
    const sent = addPassthrough(context.routes, asked.generate, asked);
    reportIgnored(context, request, reply, sent.unknown);
    const answering = {
      context,
      exchange,
      reply,
      idPrefix: "cmpl",
      paramNames: { prompt: "prompt", schema: asked.schemaParam },
    } as const;
    const { asker, signal } = exchange;
    const events = context.service.generate({ ...sent.request, asker }, signal);
    const { echoes } = asked;
    if (!asked.stream.isStream)
      return collectAnswer(answering, events, new CompletionAnswer(echoes, asked));
    const stream = { object: completionObject, ...asked.stream };
    await streamAnswer(
      answering,
      events,
      stream,
      (head) => new CompletionChunks(head, echoes, stream),
    );
    return reply;
  });
}
