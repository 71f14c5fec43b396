import type { FastifyInstance } from "fastify";
import { answerStream, answerWhole } from "../answering.ts";
import { ChatAnswer } from "../chat-answer.ts";
import { ChatChunks, chatChunkObject } from "../chat-chunks.ts";
import { chatRequestOf } from "../chat-request.ts";
import { sentAlong } from "../further-parameters.ts";
import { exchangeOf, type InferenceHttpContext, tellIgnored } from "../http-context.ts";

export function chatCompletionRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/chat/completions", async (request, reply) => {
    const exchange = exchangeOf(request);
    const asked = chatRequestOf(request.body);
    const sent = sentAlong(context.routes, asked.generate, asked);
    tellIgnored(context, request, reply, sent.unknown);
    const answering = {
      context,
      exchange,
      reply,
      idPrefix: "chatcmpl",
      words: { prompt: "messages", schema: asked.schemaParam },
    } as const;
    const events = context.service.generate(sent.request, exchange.signal);
    const { n } = asked.generate;
    if (!asked.stream.isStream) return answerWhole(answering, events, new ChatAnswer(n, asked));
    const { kind } = asked.generate.toolChoice;
    const stream = {
      object: chatChunkObject,
      ...asked.stream,
      isCall: kind === "required" || kind === "function",
    };
    await answerStream(answering, events, stream, (head) => new ChatChunks(head, n, stream));
    return reply;
  });
}
