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
import { assistantErrorOf, envelopeOf } from "./error-answer.ts";
import { type ClientWords, inWireWords } from "./error-words.ts";
import { type Exchange, usageOf } from "./exchange.ts";
import type { InferenceHttpContext } from "./http-context.ts";
import { SseStream } from "./sse-stream.ts";

/** `chatcmpl-` and 24 letters and digits. */
function answerId(prefix: "chatcmpl" | "cmpl"): string {
  return `${prefix}-${randomBytes(12).toString("hex")}`;
}

/** What an answer is made of, beside its events. */
export interface Answering {
  readonly context: InferenceHttpContext;
  readonly exchange: Exchange;
  readonly reply: FastifyReply;
  readonly idPrefix: "chatcmpl" | "cmpl";
  /** For errors. */
  readonly words: ClientWords;
}

/** The whole answer; rejects with what the events reject with. */
export async function answerWhole(
  { context, exchange, idPrefix, words }: Answering,
  events: AsyncIterable<AnswerEvent>,
  builder: AnswerBuilder,
): Promise<unknown> {
  try {
    for await (const event of events) {
      exchange.note(event, context.clock.now());
      if (event.type !== "accepted" && event.type !== "started") builder.add(event);
    }
  } catch (error) {
    throw inWireWords(error, words);
  }
  exchange.signal.throwIfAborted();
  return builder.answer(headOf(context, exchange, idPrefix), usageOf(exchange.facts));
}

/**
 * Answers with a stream. Rejects while nothing has been sent, so that the error becomes a status;
 * afterwards an error is the stream's last event, without [DONE]. The status is sent with the first
 * delta, or when there has been none for so long that the reader has to hear something.
 */
export async function answerStream(
  answering: Answering,
  events: AsyncIterable<AnswerEvent>,
  stream: {
    readonly object: string;
    readonly includeUsage: boolean;
    readonly tellsCounts: boolean;
  },
  formatOf: (head: AnswerHead) => ChunkFormat,
): Promise<void> {
  const { context, exchange, reply, idPrefix, words } = answering;
  const iterator = events[Symbol.asyncIterator]();
  let next: Pull;
  const early: StartedEvent[] = [];
  try {
    next = await firstDelta(answering, iterator, early);
    exchange.signal.throwIfAborted();
  } catch (error) {
    await ended(iterator);
    throw inWireWords(error, words);
  }
  const head = headOf(context, exchange, idPrefix);
  const format = formatOf(head);
  const headers = reply.getHeaders();
  reply.hijack();
  const sse = new SseStream(reply.raw, headers, {
    clock: context.clock,
    limits: context.limits,
    signal: exchange.signal,
  });
  const started = (event: StartedEvent) => {
    if (stream.tellsCounts) sse.write(startedChunk(head, stream.object, event));
  };
  if (stream.tellsCounts) sse.write(acceptedChunk(head, stream.object));
  sse.write(format.preamble());
  for (const event of early) started(event);
  try {
    for (let result = await next.pull; result.done !== true; result = await iterator.next()) {
      const event = result.value;
      exchange.note(event, context.clock.now());
      if (event.type === "started") started(event);
      else if (event.type !== "accepted") sse.write(format.chunk(event));
      if (sse.isBehind) await sse.drained();
      if (exchange.signal.aborted) break;
    }
    exchange.signal.throwIfAborted();
    if (stream.includeUsage) sse.write(usageChunk(head, stream.object, usageOf(exchange.facts)));
    sse.write("data: [DONE]\n\n");
  } catch (error) {
    const known = assistantErrorOf(exchange.reasonFor(inWireWords(error, words)));
    if (!exchange.isClientGone) {
      exchange.facts.errorCode = known.code;
      context.reportUnexpected(known, exchange);
      sse.write(`data: ${JSON.stringify(envelopeOf(known))}\n\n`);
    }
  } finally {
    sse.end();
    await ended(iterator);
  }
}

/** A pull that has been made, and may still be under way. */
interface Pull {
  readonly pull: Promise<IteratorResult<AnswerEvent>>;
}

/**
 * Pulls up to the first delta, but no longer than a reader can be left without an answer. `early` gets
 * what has been told of prompts by then.
 */
async function firstDelta(
  { context, exchange }: Answering,
  iterator: AsyncIterator<AnswerEvent>,
  early: StartedEvent[],
): Promise<Pull> {
  for (;;) {
    const pull = iterator.next();
    // Before the request is accepted, there is only a refusal to wait for, which is a status.
    const isAccepted = exchange.facts.model !== undefined;
    const result = isAccepted ? await within(context, pull) : await pull;
    if (result === undefined || result.done === true) return { pull };
    const event = result.value;
    if (event.type !== "accepted" && event.type !== "started") return { pull };
    exchange.note(event, context.clock.now());
    if (event.type === "started") early.push(event);
  }
}

/** Undefined when the time is up; the pull goes on. */
function within(
  { clock, limits }: InferenceHttpContext,
  pull: Promise<IteratorResult<AnswerEvent>>,
): Promise<IteratorResult<AnswerEvent> | undefined> {
  return new Promise((resolve, reject) => {
    const stop = clock.setTimer(limits.openAfterMs, () => resolve(undefined));
    pull.then(resolve, reject).finally(stop);
  });
}

/** Tells the events that nobody pulls any more. What they end with has been told already. */
async function ended(iterator: AsyncIterator<AnswerEvent>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // Told, or of no interest to anybody.
  }
}

function headOf(
  context: InferenceHttpContext,
  exchange: Exchange,
  idPrefix: Answering["idPrefix"],
): AnswerHead {
  return {
    id: answerId(idPrefix),
    created: Math.floor(context.clock.now() / 1000),
    model: exchange.facts.model ?? "",
  };
}
