import { isHighSurrogate, SurrogateJoiner } from "../../base/openai-wire/surrogate-joiner.ts";
import type { Egress } from "../data-class.ts";
import type { ChatMessage } from "../inference/runner.ts";
import type { AnswerEvent, GenerateRequest, InferenceService } from "../inference/service-port.ts";
import type { OverlayQuery } from "./overlay-query.ts";

export interface AnswerOptions {
  readonly inference: InferenceService;
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly egress: Egress;
  /** Receives non-empty text of whole code points. */
  readonly onText: (text: string) => void;
}

type EndEvent = Extract<AnswerEvent, { readonly type: "end" }>;

/**
 * Streams the answer without the model's reasoning. The model's name and the usage are stored in the query's
 * progress as they become known. Rejects with the error of the model or the reason of the query's end.
 */
export async function streamAnswer(query: OverlayQuery, options: AnswerOptions): Promise<void> {
  const { signal } = query;
  const text = new BusTextSplitter();
  const emitPieces = (pieces: Iterable<string>) => {
    for (const piece of pieces) options.onText(piece);
  };
  let promptTokens = 0;
  let end: EndEvent | undefined;
  for await (const event of options.inference.generate(toGenerateRequest(query, options), signal)) {
    if (event.type === "accepted") query.progress = { ...query.progress, model: event.model };
    if (event.type === "started") promptTokens = event.promptTokens;
    if (event.type === "text") emitPieces(text.push(event.text));
    if (event.type === "end") end = event;
  }
  emitPieces(text.flush());
  signal.throwIfAborted();
  if (!end) throw new Error("the answer ended without an end event");
  const { completionTokens, reason } = end;
  query.progress = {
    ...query.progress,
    finishReason: reason === "length" ? "length" : "stop",
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
  };
}

function toGenerateRequest(
  { caller }: OverlayQuery,
  { model, messages, egress }: AnswerOptions,
): GenerateRequest {
  return {
    model,
    prompts: [{ kind: "chat", messages, tools: [], variables: {} }],
    n: 1,
    sampling: {},
    maxTokens: undefined,
    stop: [],
    priority: "interactive",
    guide: { kind: "none" },
    toolChoice: { kind: "none" },
    parallelToolCalls: false,
    isStreamed: true,
    keepAliveMs: undefined,
    egress,
    asker: { door: "overlay", caller },
  };
}

/** The maximum number of characters in one signal, because a longer signal would delay the signals of other clients. */
const PIECE_LENGTH_MAX = 32 * 1_024;

/** Makes text fit for D-Bus: whole code points without NUL, which D-Bus strings cannot contain. */
class BusTextSplitter {
  readonly #joiner = new SurrogateJoiner();

  /** Adds a chunk of text and yields the non-empty pieces that can be sent. */
  push(text: string): Generator<string> {
    return splitPieces(this.#joiner.push(text));
  }

  /** Yields the text that was held back; a lone surrogate becomes U+FFFD. */
  flush(): Generator<string> {
    return splitPieces(this.#joiner.end());
  }
}

function* splitPieces(text: string): Generator<string> {
  const clean = text.replaceAll("\0", "\ufffd");
  for (let start = 0; start < clean.length; ) {
    let end = Math.min(start + PIECE_LENGTH_MAX, clean.length);
    if (end < clean.length && isHighSurrogate(clean.charCodeAt(end - 1))) end -= 1;
    yield clean.slice(start, end);
    start = end;
  }
}
