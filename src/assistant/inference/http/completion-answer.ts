import type { TokenLogprob } from "../runner.ts";
import type { AnswerBuilder, AnswerHead, ChoiceEvent } from "./answer-format.ts";
import { completionObject } from "./completion-chunks.ts";
import { formatCompletionLogprobs } from "./format-logprobs.ts";

interface Choice {
  text: string;
  readonly logprobs: TokenLogprob[];
  finishReason: string | null;
}

/** Builds a plain completion that is sent as one document. `echoes` contains the text with which each choice begins. */
export class CompletionAnswer implements AnswerBuilder {
  readonly #choices: readonly Choice[];
  readonly #hasLogprobs: boolean;

  constructor(echoes: readonly string[], options: { readonly logprobs: boolean }) {
    this.#hasLogprobs = options.logprobs;
    this.#choices = echoes.map((text) => ({ text, logprobs: [], finishReason: null }));
  }

  add(event: ChoiceEvent): void {
    const choice = this.#choices[event.choice];
    if (!choice) return;
    if (event.type === "text") {
      choice.text += event.text;
      for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob);
    } else if (event.type === "end") choice.finishReason = event.reason;
  }

  answer(head: AnswerHead, usage: unknown): unknown {
    return {
      id: head.id,
      object: completionObject,
      created: head.created,
      model: head.model,
      choices: this.#choices.map((choice, index) => ({
        text: choice.text,
        index,
        logprobs: this.#hasLogprobs ? formatCompletionLogprobs(choice.logprobs, 0) : null,
        finish_reason: choice.finishReason,
      })),
      usage,
    };
  }
}
