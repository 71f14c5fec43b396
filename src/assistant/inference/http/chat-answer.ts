import type { TokenLogprob } from "../runner.ts";
import type { AnswerBuilder, AnswerHead, ChoiceEvent } from "./answer-format.ts";
import { formatChatLogprobs } from "./format-logprobs.ts";

interface Choice {
  content: string;
  reasoning: string;
  readonly logprobs: TokenLogprob[];
  readonly calls: { id: string; name: string; arguments: string }[];
  finishReason: string | null;
}

/** Builds a chat answer that is sent as one document. */
export class ChatAnswer implements AnswerBuilder {
  readonly #choices: readonly Choice[];
  readonly #hasLogprobs: boolean;

  constructor(choices: number, options: { readonly logprobs: boolean }) {
    this.#hasLogprobs = options.logprobs;
    this.#choices = Array.from({ length: choices }, () => ({
      content: "",
      reasoning: "",
      logprobs: [],
      calls: [],
      finishReason: null,
    }));
  }

  add(event: ChoiceEvent): void {
    const choice = this.#choices[event.choice];
    if (!choice) return;
    switch (event.type) {
      case "text":
        choice.content += event.text;
        for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob);
        break;
      case "reasoning":
        choice.reasoning += event.text;
        break;
      case "tool_call": {
        const call = (choice.calls[event.index] ??= { id: "", name: "", arguments: "" });
        if (event.start) Object.assign(call, event.start);
        call.arguments += event.arguments;
        break;
      }
      case "end":
        choice.finishReason = event.reason;
        break;
    }
  }

  answer(head: AnswerHead, usage: unknown): unknown {
    return {
      id: head.id,
      object: "chat.completion",
      created: head.created,
      model: head.model,
      choices: this.#choices.map((choice, index) => ({
        index,
        message: buildMessage(choice),
        logprobs: this.#hasLogprobs ? formatChatLogprobs(choice.logprobs) : null,
        finish_reason: choice.finishReason,
      })),
      usage,
    };
  }
}

function buildMessage({ content, reasoning, calls }: Choice) {
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            id: call.id,
            type: "function",
            function: { name: call.name, arguments: call.arguments },
          })),
        }),
  };
}
