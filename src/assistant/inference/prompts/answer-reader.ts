import type { TokenLogprob, ToolCall } from "../runner.ts";
import type { AnswerEvent } from "../service-port.ts";
import { ThoughtSplitter } from "./thought-splitter.ts";
import { CallSplitter, type CallSplitterOptions } from "./tools/call-splitter.ts";
import type { Thinking } from "./tools/tool-grammar.ts";

type DeltaOf<Event> = Event extends { readonly choice: number } ? Omit<Event, "choice"> : never;
export type AnswerDelta = DeltaOf<
  Extract<AnswerEvent, { type: "text" | "reasoning" | "tool_call" }>
>;

export interface AnswerEnd {
  readonly deltas: readonly AnswerDelta[];
  readonly calledTools: boolean;
  /** Not counted here: text does not tell how many tokens it was. */
  readonly reasoningTokens: undefined;
  readonly calls: readonly ToolCall[];
}

type Logprobs = readonly TokenLogprob[];

/** Takes one answer of a model, as it comes, apart into text, thoughts and calls of tools. */
export class AnswerTextReader {
  readonly #thoughts: ThoughtSplitter | undefined;
  readonly #calls: CallSplitter | undefined;
  /** Of tokens whose text is held back. */
  #logprobs: TokenLogprob[] = [];

  constructor(options: {
    readonly thinking: Thinking | undefined;
    readonly calls: CallSplitterOptions | undefined;
  }) {
    this.#thoughts = options.thinking && new ThoughtSplitter(options.thinking);
    this.#calls = options.calls && new CallSplitter(options.calls);
  }

  push(text: string, logprobs: Logprobs | undefined): readonly AnswerDelta[] {
    if (logprobs !== undefined) this.#logprobs.push(...logprobs);
    return this.#withLogprobs(this.#read(text), logprobs !== undefined);
  }

  end(): AnswerEnd {
    const deltas = (this.#thoughts?.end() ?? []).flatMap((part) =>
      part.kind === "reasoning"
        ? [{ type: "reasoning", text: part.text } as const]
        : this.#answer(part.text),
    );
    for (const part of this.#calls?.end() ?? []) deltas.push(...deltaOf(part));
    const calls = this.#calls?.calls ?? [];
    if (this.#logprobs.length > 0 && calls.length === 0) {
      const last = deltas.findLastIndex(({ type }) => type === "text");
      const text = deltas[last]?.type === "text" ? deltas[last].text : "";
      const delta = { type: "text", text, logprobs: this.#logprobs } as const;
      if (last === -1) deltas.push(delta);
      else deltas[last] = delta;
    }
    return { deltas, calledTools: calls.length > 0, reasoningTokens: undefined, calls };
  }

  #read(text: string): AnswerDelta[] {
    if (this.#thoughts === undefined) return this.#answer(text);
    return this.#thoughts
      .push(text)
      .flatMap((part) =>
        part.kind === "reasoning"
          ? [{ type: "reasoning", text: part.text } as const]
          : this.#answer(part.text),
      );
  }

  #answer(text: string): AnswerDelta[] {
    if (this.#calls === undefined) return text === "" ? [] : [{ type: "text", text }];
    return this.#calls.push(text).flatMap(deltaOf);
  }

  /**
   * Logprobs go with the text that they were waiting for; those of thoughts and calls are not told, as a
   * client would take them for the answer's.
   */
  #withLogprobs(deltas: AnswerDelta[], isAsked: boolean): readonly AnswerDelta[] {
    const last = deltas.findLastIndex(({ type }) => type === "text");
    const delta = deltas[last];
    if (delta?.type === "text") {
      if (this.#logprobs.length > 0) deltas[last] = { ...delta, logprobs: this.#logprobs };
      this.#logprobs = [];
    } else if (deltas.length > 0 || this.#thoughts?.isAnswering === false) {
      this.#logprobs = [];
    } else if (isAsked && this.#thoughts === undefined && this.#calls === undefined) {
      deltas.push({ type: "text", text: "", logprobs: this.#logprobs });
      this.#logprobs = [];
    }
    return deltas;
  }
}

type CallPart = ReturnType<CallSplitter["push"]>[number];

function deltaOf(part: CallPart): AnswerDelta[] {
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
