import type { LlamaModel } from "node-llama-cpp";
import { AssistantError } from "../../assistant-error.ts";
import { type ChatPrompt, ChatTemplate } from "../prompts/chat-template.ts";
import type { PromptPiece } from "../prompts/prompt-piece.ts";
import type { Prompt, Token } from "../runner.ts";
import type { Vocabulary } from "./vocabulary.ts";

export interface PromptEncoderOptions {
  readonly model: LlamaModel;
  readonly vocabulary: Vocabulary;
  readonly chatTemplate: string | undefined;
  /** The time in epoch milliseconds; some templates render the date. */
  readonly now: () => number;
}

/** Tokenises prompts like llama.cpp, except that a client's text never becomes a control token. */
export class PromptEncoder {
  readonly #model: LlamaModel;
  readonly #vocabulary: Vocabulary;
  readonly #readTemplate: (() => ChatTemplate) | undefined;
  #template: ChatTemplate | undefined;
  readonly #controlTokenPattern: RegExp | undefined;

  constructor(options: PromptEncoderOptions) {
    this.#model = options.model;
    this.#vocabulary = options.vocabulary;
    // The longest tokens come first in the pattern, so that the longest one matches, as in llama.cpp.
    const controlTokens = [...this.#vocabulary.controlTokens.keys()].toSorted(
      (one, other) => other.length - one.length,
    );
    const { chatTemplate: source, now } = options;
    const { bos, eos } = options.model.tokens;
    const vocabulary = {
      bosToken: this.#vocabulary.getWord(bos) ?? "",
      eosToken: this.#vocabulary.getWord(eos) ?? "",
      controlTokens,
    };
    // The template is parsed with the first chat, so that a model with a broken template can still complete and embed.
    if (source !== undefined) {
      this.#readTemplate = () => new ChatTemplate({ source, vocabulary, now });
    }
    if (controlTokens.length > 0) {
      this.#controlTokenPattern = new RegExp(
        controlTokens.map((text) => escapeRegExp(text)).join("|"),
        "g",
      );
    }
  }

  encode(prompt: Prompt): readonly Token[] {
    switch (prompt.kind) {
      case "tokens":
        return this.#assertTokens(prompt.tokens);
      case "text":
        return this.#prependBos(this.#tokenizeText(prompt.text));
      case "chat":
        return this.#prependBos(this.#tokenizePieces(this.#render(prompt)));
      default:
        throw new RangeError("the kind of prompt is unknown");
    }
  }

  #render(prompt: ChatPrompt): readonly PromptPiece[] {
    this.#template ??= this.#readTemplate?.();
    if (!this.#template) {
      throw new AssistantError(
        "model_unsuitable",
        "the model has no chat template, so it cannot chat; use completions or another model",
      );
    }
    return this.#template.render(prompt);
  }

  #assertTokens(tokens: readonly Token[]): readonly Token[] {
    const wrong = tokens.find(
      (token) => !Number.isInteger(token) || token < 0 || token >= this.#vocabulary.size,
    );
    if (wrong === undefined) return tokens;
    throw new AssistantError(
      "invalid_request",
      `${wrong} is not a token of this model, which has the tokens 0 to ${this.#vocabulary.size - 1}`,
      { param: "prompt" },
    );
  }

  /** Adds the BOS token if the model requires it and the template has not written it. */
  #prependBos(tokens: readonly Token[]): readonly Token[] {
    const { bos, shouldPrependBosToken } = this.#model.tokens;
    if (bos === null || !shouldPrependBosToken) return tokens;
    return tokens[0] === bos ? tokens : [bos, ...tokens];
  }

  /**
   * Tokenises all text between two control tokens as one text, even if it consists of several pieces, because the model
   * was trained that way. Moreover, a prefix that two requests have in common then has the same tokens in both.
   */
  #tokenizePieces(pieces: readonly PromptPiece[]): readonly Token[] {
    const tokens: Token[] = [];
    let plain = "";
    const flush = () => {
      // A loop, because spreading the tokens of a long prompt into one call would overflow the stack.
      for (const token of this.#tokenizeText(plain)) tokens.push(token);
      plain = "";
    };
    for (const { text, allowsControlTokens } of pieces) {
      if (!allowsControlTokens || !this.#controlTokenPattern) {
        plain += text;
        continue;
      }
      let end = 0;
      for (const match of text.matchAll(this.#controlTokenPattern)) {
        plain += text.slice(end, match.index);
        end = match.index + match[0].length;
        flush();
        const token = this.#vocabulary.controlTokens.get(match[0]);
        if (token !== undefined) tokens.push(token);
      }
      plain += text.slice(end);
    }
    flush();
    return tokens;
  }

  #tokenizeText(text: string): readonly Token[] {
    return text === "" ? [] : this.#model.tokenize(text, false);
  }
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}
