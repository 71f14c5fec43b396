import type { Prompt } from "../runner.ts";
import type { CompiledTemplate } from "./compiled-template.ts";
import {
  ControlTokenGuard,
  collectPrivateUse,
  mapTexts,
  TextMasker,
} from "./control-token-guard.ts";
import { compileTemplate, withTemplateErrors } from "./explain-template-errors.ts";
import type { PromptPiece } from "./prompt-piece.ts";
import { toTemplateMessages, toTemplateTool } from "./template-messages.ts";

export type ChatPrompt = Extract<Prompt, { kind: "chat" }>;

/** The part of a vocabulary that templates and the control-token guard use. */
export interface ChatVocabulary {
  /** The text of the BOS token; "" if the vocabulary has none. */
  readonly bosToken: string;
  readonly eosToken: string;
  /** The texts of all tokens of the types control and unknown. */
  readonly controlTokens: readonly string[];
}

export interface ChatTemplateOptions {
  /** The Jinja template from the model file. */
  readonly source: string;
  readonly vocabulary: ChatVocabulary;
  /** The time in epoch milliseconds; some templates render the date. */
  readonly now: () => number;
}

/** Renders a conversation in the format that the model was trained on. */
export class ChatTemplate {
  readonly #options: ChatTemplateOptions;
  readonly #compiled: CompiledTemplate;
  readonly #guard: ControlTokenGuard;

  /** Throws AssistantError `model_unusable` if the template cannot be parsed. */
  constructor(options: ChatTemplateOptions) {
    this.#options = options;
    this.#compiled = compileTemplate(options.source);
    this.#guard = new ControlTokenGuard({
      controlTokens: options.vocabulary.controlTokens,
      template: options.source,
    });
  }

  /**
   * Renders the prompt up to the start of the model's answer. Throws AssistantError `invalid_request` with
   * the template's message if the template refuses the conversation, and `model_unusable` if it fails.
   */
  render(prompt: ChatPrompt): readonly PromptPiece[] {
    const used = new Set<string>();
    mapTexts([prompt.messages, prompt.tools, prompt.variables], (text) => {
      collectPrivateUse(text, used);
      return text;
    });
    const texts = new TextMasker(this.#guard, "names", used);
    const pieces = this.#render(prompt, texts);
    return texts.mayFormControlToken ? this.#verifyControlTokens(pieces, prompt, used) : pieces;
  }

  /**
   * Text of a client and text of the template may form a control token together: `'<|' + name + '|>'`. So this method
   * renders the prompt again with the letters of the client's text masked. If that prompt has fewer control tokens, the
   * method returns it; otherwise it returns `pieces`.
   */
  #verifyControlTokens(
    pieces: readonly PromptPiece[],
    prompt: ChatPrompt,
    used: ReadonlySet<string>,
  ): readonly PromptPiece[] {
    const names = this.#guard.findControlTokens(pieces);
    let strict: readonly PromptPiece[];
    try {
      strict = this.#render(prompt, new TextMasker(this.#guard, "letters", used));
    } catch (error) {
      // This rendering masks all letters of the client's text, so a template that compares the text with fixed values
      // may fail. Then the first rendering is returned, provided that every control token in `pieces` comes from the
      // template's source or is BOS or EOS.
      const { bosToken, eosToken } = this.#options.vocabulary;
      const knownText = this.#options.source + bosToken + eosToken;
      if (names.every((name) => knownText.includes(name))) return pieces;
      throw error;
    }
    return names.length > this.#guard.findControlTokens(strict).length ? strict : pieces;
  }

  #render(prompt: ChatPrompt, texts: TextMasker): readonly PromptPiece[] {
    const mask = (text: string): string => texts.mask(text);
    const capabilities = withTemplateErrors(() => this.#compiled.capabilities);
    const tools = prompt.tools.map((tool) => toTemplateTool(tool, mask));
    const variables = {
      ...Object.fromEntries(
        Object.entries(prompt.variables).map(([name, value]) => [name, mapTexts(value, mask)]),
      ),
      messages: toTemplateMessages(
        prompt.messages,
        withTemplateErrors(() => this.#compiled.capabilities),
        mask,
      ),
      // Most templates test whether `tools` is undefined or `none`, so an empty list is omitted.
      ...((tools.length > 0 || capabilities.wantsEmptyTools) && { tools }),
      add_generation_prompt: true,
      bos_token: this.#options.vocabulary.bosToken,
      eos_token: this.#options.vocabulary.eosToken,
    };
    return texts.unmask(
      withTemplateErrors(() => this.#compiled.render(variables, this.#options.now()), {
        alwaysFails: !capabilities.rendersQuestion,
      }),
    );
  }
}
