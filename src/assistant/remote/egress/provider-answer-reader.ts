import { ChoiceReader } from "../../../base/openai-wire/choice-reader.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../../base/openai-wire/json-members.ts";
import { parseJson } from "../../../base/openai-wire/response-errors.ts";
import { parseUsage, type Usage } from "../../../base/openai-wire/usage.ts";
import type { AnswerEvent, GenerateRequest } from "../../inference/service-port.ts";
import { createEndEvent, type EndEvent } from "../../inference/wire/end-event.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/**
 * Turns a provider's stream or document into AnswerEvents. Providers send token counts at the end or not at all, so
 * each prompt's `started` and each choice's `end` come last, with the totals on the first prompt and the last choice.
 * Deviations from OpenAI's format are ignored as long as the answer can be read.
 */
export class ProviderAnswerReader {
  readonly #choices: readonly ChoiceReader[];
  readonly #prompts: number;
  readonly #errors: ProviderErrors;
  readonly #reasons = new Map<number, EndEvent["reason"]>();
  #usage: Usage | undefined;
  #hasSaidAnything = false;
  #isDone = false;

  constructor({ prompts, n }: Pick<GenerateRequest, "prompts" | "n">, errors: ProviderErrors) {
    this.#prompts = prompts.length;
    this.#choices = Array.from(
      { length: prompts.length * n },
      (_, choice) => new ChoiceReader(choice),
    );
    this.#errors = errors;
  }

  /** True if every choice has ended, or the stream has signalled its end; token counts may still follow. */
  get hasEnded(): boolean {
    return this.#isDone || this.#reasons.size === this.#choices.length;
  }

  /** True after the reader has returned its last events. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Reads the data of one server-sent event. Throws the error that the event reports, and `bad_response` for data that
   * does not have OpenAI's format.
   */
  read(data: string): AnswerEvent[] {
    if (this.#isDone || data === "") return [];
    if (data.trim() === "[DONE]") {
      if (!this.#hasSaidAnything)
        throw this.#errors.malformedResponse("the stream ended without an answer");
      return this.#done();
    }
    return this.#chunk(parseJson(data, "the stream has an event that is not JSON", this.#errors));
  }

  /** Reads a whole answer from one JSON document, which some providers send instead of a stream. */
  document(text: string): AnswerEvent[] {
    const document = parseJson(text, "the answer is not JSON", this.#errors);
    // Some providers send an error as a list with one item, so the first item of a list is read.
    const events = this.#chunk(Array.isArray(document) ? document[0] : document);
    if (!this.#hasSaidAnything)
      throw this.#errors.malformedResponse("the answer is a document without choices");
    return [...events, ...this.#done()];
  }

  /**
   * Must be called when the body has ended. Returns the last events. Throws `cut_off` if the answer is not complete.
   */
  finish(): AnswerEvent[] {
    if (this.#isDone) return [];
    if (!this.hasEnded) throw this.#errors.cutOff();
    return this.#done();
  }

  #chunk(chunk: unknown): AnswerEvent[] {
    const error = getMember(chunk, "error");
    if (error !== undefined && error !== null) throw this.#errors.fromEnvelope(error);
    const usage = getMember(chunk, "usage") ?? getMember(getMember(chunk, "x_groq"), "usage");
    // Some providers send growing token counts with every chunk, so the last counts apply.
    if (usage !== undefined && usage !== null) this.#usage = parseUsage(usage);
    const choices = getArrayMember(chunk, "choices");
    if (choices) return choices.flatMap((choice, place) => this.#choice(choice, place));
    if (getStringMember(chunk, "message") !== undefined) throw this.#errors.fromEnvelope(chunk);
    return [];
  }

  #choice(value: unknown, place: number): AnswerEvent[] {
    const choice = getCountMember(value, "index") ?? place;
    const reader = this.#choices[choice];
    // Choices beyond those requested are ignored.
    if (!reader) return [];
    const error = getMember(value, "error");
    if (error !== undefined && error !== null) throw this.#errors.fromEnvelope(error);
    this.#hasSaidAnything = true;
    const reason = getStringMember(value, "finish_reason")?.toLowerCase();
    if (reason === "error") throw this.#errors.fromEnvelope("");
    if (reason !== undefined && reason !== "" && !this.#reasons.has(choice))
      this.#reasons.set(choice, parseFinishReason(reason));
    return [...reader.read(value)];
  }

  #done(): AnswerEvent[] {
    this.#isDone = true;
    const rests = this.#choices.flatMap((reader) => [...reader.end()]);
    const started = Array.from({ length: this.#prompts }, (_, prompt): AnswerEvent => {
      const counts = prompt === 0 ? this.#usage : undefined;
      return {
        type: "started",
        prompt,
        promptTokens: counts?.promptTokens ?? 0,
        cachedTokens: counts?.cachedTokens ?? 0,
      };
    });
    const ends = this.#choices.map((reader, choice) => {
      const isLast = choice + 1 === this.#choices.length;
      const said = this.#reasons.get(choice) ?? "stop";
      return createEndEvent(
        choice,
        correctFinishReason(said, reader.calledTools),
        isLast ? this.#usage : undefined,
      );
    });
    return [...rests, ...started, ...ends];
  }
}

const lengthReasons: ReadonlySet<string> = new Set(["length", "max_tokens", "model_length"]);

/**
 * Reasons other than those for reaching the length limit (end_turn, eos, content_filter, ...) mean that the model has
 * finished.
 */
function parseFinishReason(reason: string): EndEvent["reason"] {
  return lengthReasons.has(reason) ? "length" : "stop";
}

/**
 * Returns `tool_calls` instead of `stop` if the answer contains tool calls, because some providers report `stop` with
 * tool calls, or `tool_calls` without any.
 */
function correctFinishReason(reason: EndEvent["reason"], calledTools: boolean): EndEvent["reason"] {
  return reason === "stop" && calledTools ? "tool_calls" : reason;
}
