import type { Egress } from "../data-class.ts";
import type { ChatMessage } from "../inference/runner.ts";
import type { AnswerEvent, GenerateRequest, InferenceService } from "../inference/service-port.ts";
import type { Query } from "./query.ts";
import { WholeText } from "./whole-text.ts";

export interface AnswerWish {
  readonly inference: InferenceService;
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly egress: Egress;
  /** Whole code points, never "". */
  readonly onText: (text: string) => void;
}

type End = Extract<AnswerEvent, { readonly type: "end" }>;

/**
 * Streams the answer; what the model thinks before it is not told. Who answered, and what it took, goes into the
 * query's progress as it becomes known. Rejects with the error of the model, or with the query's end.
 */
export async function answerTo(query: Query, wish: AnswerWish): Promise<void> {
  const { signal } = query;
  const text = new WholeText();
  const tell = (pieces: Iterable<string>) => {
    for (const piece of pieces) wish.onText(piece);
  };
  let promptTokens = 0;
  let end: End | undefined;
  for await (const event of wish.inference.generate(requestOf(wish), signal)) {
    if (event.type === "accepted") query.progress = { ...query.progress, model: event.model };
    if (event.type === "started") promptTokens = event.promptTokens;
    if (event.type === "text") tell(text.add(event.text));
    if (event.type === "end") end = event;
  }
  tell(text.end());
  signal.throwIfAborted();
  if (!end) throw new Error("the answer has no end");
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

function requestOf({ model, messages, egress }: AnswerWish): GenerateRequest {
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
  };
}
