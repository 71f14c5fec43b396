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

/** What templates and the guard of clients' text ask of a vocabulary. */
export interface ChatVocabulary {
  /** As the vocabulary writes them; "" where it has none. */
  readonly bosToken: string;
  readonly eosToken: string;
  /** Texts of the tokens that are not text: those of type control and unknown. */
  readonly controlTokens: readonly string[];
}

export interface ChatTemplateOptions {
  /** Jinja, as the file has it. */
  readonly source: string;
  readonly vocabulary: ChatVocabulary;
  /** Milliseconds since the Unix epoch; some templates tell the model the date. */
  readonly now: () => number;
}

/** Puts a conversation into the words that a model was trained on. */
export class ChatTemplate {
  readonly #options: ChatTemplateOptions;
  readonly #compiled: CompiledTemplate;
  readonly #guard: ControlTokenGuard;

  /** Throws AssistantError `model_unusable` where the template cannot be read. */
  constructor(options: ChatTemplateOptions) {
    this.#options = options;
    this.#compiled = compileTemplate(options.source);
    this.#guard = new ControlTokenGuard({
      controlTokens: options.vocabulary.controlTokens,
      template: options.source,
    });
  }

  /**
   * The prompt, up to where the model's answer begins. Throws AssistantError `invalid_request` where the
   * template refuses the conversation, with the template's words, and `model_unusable` where it fails.
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
   * A name of a control token may be made of a client's text and a template's: `'<|' + name + '|>'`. So
   * names are counted against a rendering in which no letter of a client's can be a part of one.
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
      // A template that compares text with words refuses words that it cannot read.
      const { bosToken, eosToken } = this.#options.vocabulary;
      const own = this.#options.source + bosToken + eosToken;
      if (names.every((name) => own.includes(name))) return pieces;
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
      // Most templates ask whether it is there, or whether it is none.
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
