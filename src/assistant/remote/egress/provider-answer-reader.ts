import type { AnswerEvent, GenerateRequest } from "../../inference/service-port.ts";
import { ChoiceReader } from "../../inference/wire/choice-reader.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../inference/wire/json-members.ts";
import { parseJson } from "../../inference/wire/response-errors.ts";
import {
  createEndEvent,
  type EndEvent,
  parseUsage,
  type Usage,
} from "../../inference/wire/usage.ts";
import type { ProviderErrors } from "./provider-errors.ts";

/**
 * Turns what a provider streams, or answers as one document, into the events of the port. The convention tells
 * counts once, at the end or nowhere: so each prompt's `started` and each choice's `end` come last, with the
 * counts of all on the first prompt and the last choice. What providers add or leave out is passed over
 * wherever an answer can still be told from it.
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

  /** Every choice has had its end, or the stream has said that it is over; there may still be counts to come. */
  get hasEnded(): boolean {
    return this.#isDone || this.#reasons.size === this.#choices.length;
  }

  /** The last events have been given. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** The data of one event. Throws what it says went wrong, and `bad_response` for what is not understood. */
  read(data: string): AnswerEvent[] {
    if (this.#isDone || data === "") return [];
    if (data.trim() === "[DONE]") {
      if (!this.#hasSaidAnything) throw this.#errors.malformedResponse("an end without an answer");
      return this.#done();
    }
    return this.#chunk(parseJson(data, "an event that is no JSON", this.#errors));
  }

  /** A whole answer, where a stream was asked for. */
  document(text: string): AnswerEvent[] {
    const document = parseJson(text, "a document that is no JSON", this.#errors);
    // Some answer a list of one error.
    const events = this.#chunk(Array.isArray(document) ? document[0] : document);
    if (!this.#hasSaidAnything)
      throw this.#errors.malformedResponse("a document without an answer");
    return [...events, ...this.#done()];
  }

  /** The body has ended. Throws `cut_off` where the answer had not. */
  finish(): AnswerEvent[] {
    if (this.#isDone) return [];
    if (!this.hasEnded) throw this.#errors.cutOff();
    return this.#done();
  }

  #chunk(chunk: unknown): AnswerEvent[] {
    const error = getMember(chunk, "error");
    if (error !== undefined && error !== null) throw this.#errors.fromEnvelope(error);
    const usage = getMember(chunk, "usage") ?? getMember(getMember(chunk, "x_groq"), "usage");
    // Some tell it with every chunk, as it grows.
    if (usage !== undefined && usage !== null) this.#usage = parseUsage(usage);
    const choices = getArrayMember(chunk, "choices");
    if (choices) return choices.flatMap((choice, place) => this.#choice(choice, place));
    if (getStringMember(chunk, "message") !== undefined) throw this.#errors.fromEnvelope(chunk);
    return [];
  }

  #choice(value: unknown, place: number): AnswerEvent[] {
    const choice = getCountMember(value, "index") ?? place;
    const reader = this.#choices[choice];
    // More choices than were asked for are nobody's.
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

/** Everything else that there is (end_turn, eos, content_filter, ...) means that nothing more was to come. */
function parseFinishReason(reason: string): EndEvent["reason"] {
  return lengthReasons.has(reason) ? "length" : "stop";
}

/** Whether it called tools is seen by its calls: some say `stop` then, or `tool_calls` without any. */
function correctFinishReason(reason: EndEvent["reason"], calledTools: boolean): EndEvent["reason"] {
  return reason === "stop" && calledTools ? "tool_calls" : reason;
}
