import type { TokenLogprob, ToolCall } from "../runner.ts";
import type { AnswerEvent } from "../service-port.ts";
import { ReasoningSplitter } from "./reasoning-splitter.ts";
import { ToolCallSplitter, type ToolCallSplitterOptions } from "./tools/tool-call-splitter.ts";
import type { Thinking } from "./tools/tool-grammar.ts";

type DeltaOf<Event> = Event extends { readonly choice: number } ? Omit<Event, "choice"> : never;
export type AnswerDelta = DeltaOf<
  Extract<AnswerEvent, { type: "text" | "reasoning" | "tool_call" }>
>;

export interface AnswerEnd {
  readonly deltas: readonly AnswerDelta[];
  readonly calledTools: boolean;
  /** Always undefined, because the parser cannot derive the number of tokens from text. */
  readonly reasoningTokens: undefined;
  readonly calls: readonly ToolCall[];
}

type Logprobs = readonly TokenLogprob[];

/** Parses a streamed answer of a model into text, reasoning and tool calls. */
export class AnswerParser {
  readonly #reasoning: ReasoningSplitter | undefined;
  readonly #calls: ToolCallSplitter | undefined;
  /** The logprobs of tokens whose text is held back. */
  #heldLogprobs: TokenLogprob[] = [];

  constructor(options: {
    readonly thinking: Thinking | undefined;
    readonly calls: ToolCallSplitterOptions | undefined;
  }) {
    this.#reasoning = options.thinking && new ReasoningSplitter(options.thinking);
    this.#calls = options.calls && new ToolCallSplitter(options.calls);
  }

  push(text: string, logprobs: Logprobs | undefined): readonly AnswerDelta[] {
    for (const logprob of logprobs ?? []) this.#heldLogprobs.push(logprob);
    return this.#withLogprobs(this.#parse(text), logprobs !== undefined);
  }

  /** See `AnswerStreamParser.end`. */
  end(isCut: boolean): AnswerEnd {
    const deltas = (this.#reasoning?.end(isCut) ?? []).flatMap((part) =>
      part.kind === "reasoning"
        ? [{ type: "reasoning", text: part.text } as const]
        : this.#parseAnswer(part.text),
    );
    for (const part of this.#calls?.end(isCut) ?? []) deltas.push(...toDeltas(part));
    const calls = this.#calls?.calls ?? [];
    const last = deltas.findLastIndex(({ type }) => type === "text");
    // If an answer was cut off and no text is left to emit, the held logprobs belong to a marker that was dropped.
    const hasText = last !== -1 || !isCut;
    if (this.#heldLogprobs.length > 0 && calls.length === 0 && hasText) {
      const text = deltas[last]?.type === "text" ? deltas[last].text : "";
      const delta = { type: "text", text, logprobs: this.#heldLogprobs } as const;
      if (last === -1) deltas.push(delta);
      else deltas[last] = delta;
    }
    return { deltas, calledTools: calls.length > 0, reasoningTokens: undefined, calls };
  }

  #parse(text: string): AnswerDelta[] {
    if (this.#reasoning === undefined) return this.#parseAnswer(text);
    return this.#reasoning
      .push(text)
      .flatMap((part) =>
        part.kind === "reasoning"
          ? [{ type: "reasoning", text: part.text } as const]
          : this.#parseAnswer(part.text),
      );
  }

  #parseAnswer(text: string): AnswerDelta[] {
    if (this.#calls === undefined) return text === "" ? [] : [{ type: "text", text }];
    return this.#calls.push(text).flatMap(toDeltas);
  }

  /**
   * Adds the logprobs of text that was held back to the last text delta in `deltas`. Logprobs of reasoning and tool
   * calls are dropped, because a client would attribute them to the answer's text.
   */
  #withLogprobs(deltas: AnswerDelta[], hasLogprobs: boolean): readonly AnswerDelta[] {
    const last = deltas.findLastIndex(({ type }) => type === "text");
    const delta = deltas[last];
    if (delta?.type === "text") {
      if (this.#heldLogprobs.length > 0) deltas[last] = { ...delta, logprobs: this.#heldLogprobs };
      this.#heldLogprobs = [];
    } else if (deltas.length > 0 || this.#reasoning?.isAnswering === false) {
      this.#heldLogprobs = [];
    } else if (hasLogprobs && this.#reasoning === undefined && this.#calls === undefined) {
      deltas.push({ type: "text", text: "", logprobs: this.#heldLogprobs });
      this.#heldLogprobs = [];
    }
    return deltas;
  }
}

type CallPart = ReturnType<ToolCallSplitter["push"]>[number];

function toDeltas(part: CallPart): AnswerDelta[] {
  if (part.kind === "text") return [{ type: "text", text: part.text }];
  const { index, start } = part;
  return [
    {
      type: "tool_call",
      index,
      ...(start !== undefined && { start }),
      arguments: part.arguments,
    },
  ];
}
