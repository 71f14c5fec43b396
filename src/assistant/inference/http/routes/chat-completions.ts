import type { FastifyInstance } from "fastify";
import { ChatAnswer } from "../chat-answer.ts";
import { ChatChunks, chatChunkObject } from "../chat-chunks.ts";
import { parseChatRequest } from "../chat-request.ts";
import { getExchange, type InferenceHttpContext, reportIgnored } from "../http-context.ts";
import { addPassthrough } from "../passthrough-parameters.ts";
import { collectAnswer, streamAnswer } from "../send-answer.ts";

export function chatCompletionRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.post("/v1/chat/completions", async (request, reply) => {
    const exchange = getExchange(request);
    const asked = parseChatRequest(request.body);
    const sent = addPassthrough(context.routes, asked.generate, asked);
    reportIgnored(context, request, reply, sent.unknown);
    const answering = {
      context,
      exchange,
      reply,
      idPrefix: "chatcmpl",
      paramNames: { prompt: "messages", schema: asked.schemaParam },
    } as const;
    const { asker, signal } = exchange;
    const events = context.service.generate({ ...sent.request, asker }, signal);
    const { n } = asked.generate;
    if (!asked.stream.isStream) return collectAnswer(answering, events, new ChatAnswer(n, asked));
    const { kind } = asked.generate.toolChoice;
    const stream = {
      object: chatChunkObject,
      ...asked.stream,
      isCall: kind === "required" || kind === "function",
    };
    await streamAnswer(answering, events, stream, (head) => new ChatChunks(head, n, stream));
    return reply;
  });
}
