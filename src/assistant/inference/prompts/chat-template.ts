import type { Prompt } from "../runner.ts";
import type { CompiledTemplate } from "./compiled-template.ts";
import type { PromptPiece } from "./pieces.ts";
import { compiledTemplate, explained } from "./template-errors.ts";
import { templateMessages, templateTool } from "./template-messages.ts";
import { collectPrivateUse, HiddenTexts, mapTexts, TextGuard } from "./text-guard.ts";

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
  readonly #guard: TextGuard;

  /** Throws AssistantError `model_unusable` where the template cannot be read. */
  constructor(options: ChatTemplateOptions) {
    this.#options = options;
    this.#compiled = compiledTemplate(options.source);
    this.#guard = new TextGuard({
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
    const texts = new HiddenTexts(this.#guard, "names", used);
    const pieces = this.#render(prompt, texts);
    return texts.suspicious ? this.#checked(pieces, prompt, used) : pieces;
  }

  /**
   * A name of a control token may be made of a client's text and a template's: `'<|' + name + '|>'`. So
   * names are counted against a rendering in which no letter of a client's can be a part of one.
   */
  #checked(
    pieces: readonly PromptPiece[],
    prompt: ChatPrompt,
    used: ReadonlySet<string>,
  ): readonly PromptPiece[] {
    const names = this.#guard.namesIn(pieces);
    let strict: readonly PromptPiece[];
    try {
      strict = this.#render(prompt, new HiddenTexts(this.#guard, "letters", used));
    } catch (error) {
      // A template that compares text with words refuses words that it cannot read.
      const { bosToken, eosToken } = this.#options.vocabulary;
      const own = this.#options.source + bosToken + eosToken;
      if (names.every((name) => own.includes(name))) return pieces;
      throw error;
    }
    return names.length > this.#guard.namesIn(strict).length ? strict : pieces;
  }

  #render(prompt: ChatPrompt, texts: HiddenTexts): readonly PromptPiece[] {
    const hide = (text: string): string => texts.hide(text);
    const traits = explained(() => this.#compiled.traits);
    const tools = prompt.tools.map((tool) => templateTool(tool, hide));
    const variables = {
      ...Object.fromEntries(
        Object.entries(prompt.variables).map(([name, value]) => [name, mapTexts(value, hide)]),
      ),
      messages: templateMessages(
        prompt.messages,
        explained(() => this.#compiled.traits),
        hide,
      ),
      // Most templates ask whether it is there, or whether it is none.
      ...((tools.length > 0 || traits.emptyTools) && { tools }),
      add_generation_prompt: true,
      bos_token: this.#options.vocabulary.bosToken,
      eos_token: this.#options.vocabulary.eosToken,
    };
    return texts.pieces(
      explained(() => this.#compiled.render(variables, this.#options.now()), {
        alwaysFails: !traits.speaks,
      }),
    );
  }
}
