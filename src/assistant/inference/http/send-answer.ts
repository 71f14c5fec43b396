import { randomBytes } from "node:crypto";
import type { FastifyReply } from "fastify";
import type { AnswerEvent } from "../service-port.ts";
import {
  type AnswerBuilder,
  type AnswerHead,
  acceptedChunk,
  type ChunkFormat,
  type StartedEvent,
  startedChunk,
  usageChunk,
} from "./answer-format.ts";
import { type ClientParamNames, renameErrorParam } from "./error-params.ts";
import type { InferenceHttpContext } from "./http-context.ts";
import { formatUsage, type HttpExchange } from "./http-exchange.ts";
import { createErrorEnvelope, toAssistantError } from "./inference-error-response.ts";
import { SseStream } from "./sse-stream.ts";

/** Creates the id of an answer: the prefix and 24 hexadecimal digits. */
function answerId(prefix: "chatcmpl" | "cmpl"): string {
  return `${prefix}-${randomBytes(12).toString("hex")}`;
}

/** Everything that is needed to send an answer, except the events of the answer. */
export interface AnswerContext {
  readonly context: InferenceHttpContext;
  readonly exchange: HttpExchange;
  readonly reply: FastifyReply;
  readonly idPrefix: "chatcmpl" | "cmpl";
  /** The client's names for the prompt and the schema, which errors mention instead of Berth's own names. */
  readonly paramNames: ClientParamNames;
}

/** Collects the events and resolves to the whole answer. Rejects if the events end with an error. */
export async function collectAnswer(
  { context, exchange, idPrefix, paramNames }: AnswerContext,
  events: AsyncIterable<AnswerEvent>,
  builder: AnswerBuilder,
): Promise<unknown> {
  try {
    for await (const event of events) {
      exchange.recordEvent(event, context.clock.now());
      if (event.type !== "accepted" && event.type !== "started") builder.add(event);
    }
  } catch (error) {
    throw renameErrorParam(error, paramNames);
  }
  exchange.signal.throwIfAborted();
  return builder.answer(createHead(context, exchange, idPrefix), formatUsage(exchange.facts));
}

/**
 * Sends an answer as a stream. Rejects only if nothing has been sent, so that the error determines the HTTP status. A
 * later error is sent as the last event, without [DONE]. The headers are sent with the first delta. If there is no
 * delta for a while, they are sent without one, so that the reader receives something.
 */
export async function streamAnswer(
  answering: AnswerContext,
  events: AsyncIterable<AnswerEvent>,
  stream: {
    readonly object: string;
    readonly includeUsage: boolean;
    readonly includeCounts: boolean;
  },
  formatOf: (head: AnswerHead) => ChunkFormat,
): Promise<void> {
  const { context, exchange, reply, idPrefix, paramNames } = answering;
  const iterator = events[Symbol.asyncIterator]();
  let next: PendingPull;
  const early: StartedEvent[] = [];
  try {
    next = await pullFirstDelta(answering, iterator, early);
    exchange.signal.throwIfAborted();
  } catch (error) {
    await closeIterator(iterator);
    throw renameErrorParam(error, paramNames);
  }
  const head = createHead(context, exchange, idPrefix);
  const format = formatOf(head);
  const headers = reply.getHeaders();
  reply.hijack();
  const sse = new SseStream(reply.raw, headers, {
    clock: context.clock,
    limits: context.limits,
    signal: exchange.signal,
  });
  const started = (event: StartedEvent) => {
    if (stream.includeCounts) sse.write(startedChunk(head, stream.object, event));
  };
  if (stream.includeCounts) sse.write(acceptedChunk(head, stream.object));
  sse.write(format.preamble());
  for (const event of early) started(event);
  try {
    for (let result = await next.pull; result.done !== true; result = await iterator.next()) {
      const event = result.value;
      exchange.recordEvent(event, context.clock.now());
      if (event.type === "started") started(event);
      else if (event.type !== "accepted") sse.write(format.chunk(event));
      if (sse.isBehind) await sse.drained();
      if (exchange.signal.aborted) break;
    }
    exchange.signal.throwIfAborted();
    if (stream.includeUsage)
      sse.write(usageChunk(head, stream.object, formatUsage(exchange.facts)));
    sse.write("data: [DONE]\n\n");
  } catch (error) {
    const known = toAssistantError(exchange.resolveError(renameErrorParam(error, paramNames)));
    if (!exchange.isClientGone) {
      exchange.facts.errorCode = known.code;
      context.reportUnexpected(known, exchange);
      sse.write(`data: ${JSON.stringify(createErrorEnvelope(known))}\n\n`);
    }
  } finally {
    sse.end();
    await closeIterator(iterator);
  }
}

/** A pull of the next event. It was started, and may still be pending. */
interface PendingPull {
  readonly pull: Promise<IteratorResult<AnswerEvent>>;
}

/**
 * Pulls events up to the first delta, but stops waiting when `openAfterMs` has passed and the stream must begin. Adds
 * the `started` events, which precede the first delta, to `early`.
 */
async function pullFirstDelta(
  { context, exchange }: AnswerContext,
  iterator: AsyncIterator<AnswerEvent>,
  early: StartedEvent[],
): Promise<PendingPull> {
  for (;;) {
    const pull = iterator.next();
    // Until the request is accepted, there is no time limit: the request may still be refused, and a refusal needs its
    // own HTTP status.
    const isAccepted = exchange.facts.model !== undefined;
    const result = isAccepted ? await pullWithin(context, pull) : await pull;
    if (result === undefined || result.done === true) return { pull };
    const event = result.value;
    if (event.type !== "accepted" && event.type !== "started") return { pull };
    exchange.recordEvent(event, context.clock.now());
    if (event.type === "started") early.push(event);
  }
}

/**
 * Resolves to the result of `pull`, or to undefined if `openAfterMs` passes first. `pull` itself then remains pending.
 */
function pullWithin(
  { clock, limits }: InferenceHttpContext,
  pull: Promise<IteratorResult<AnswerEvent>>,
): Promise<IteratorResult<AnswerEvent> | undefined> {
  return new Promise((resolve, reject) => {
    const stop = clock.setTimer(limits.openAfterMs, () => resolve(undefined));
    pull.then(resolve, reject).finally(stop);
  });
}

/** Ends the iteration over the events of an answer. Never rejects. */
async function closeIterator(iterator: AsyncIterator<AnswerEvent>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // The caller has already handled the error of the events, or the client has disconnected.
  }
}

function createHead(
  context: InferenceHttpContext,
  exchange: HttpExchange,
  idPrefix: AnswerContext["idPrefix"],
): AnswerHead {
  return {
    id: answerId(idPrefix),
    created: Math.floor(context.clock.now() / 1000),
    model: exchange.facts.model ?? "",
  };
}
