import { ChoiceReader } from "../../../base/openai-wire/choice-reader.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../../base/openai-wire/json-members.ts";
import { parseJson } from "../../../base/openai-wire/response-errors.ts";
import { parseUsage } from "../../../base/openai-wire/usage.ts";
import type { AnswerEvent, GenerateRequest } from "../service-port.ts";
import { createEndEvent, type EndEvent } from "../wire/end-event.ts";
import { malformedResponseError, parseErrorEnvelope, upstreamErrors } from "./upstream-errors.ts";

/**
 * Converts the events of the system instance's answer stream to AnswerEvents. The system instance sends token counts as
 * they become known. An older system instance sends only the usage at the end: then `started` is emitted just before
 * the `end` events, the first prompt gets all prompt tokens, and the last choice all completion tokens.
 */
export class UpstreamAnswerReader {
  readonly #choices: readonly ChoiceReader[];
  /** The `end` events without token counts. They are emitted after the stream has reported the usage or has ended. */
  readonly #pendingEnds: EndEvent[] = [];
  readonly #ended = new Set<number>();
  #hasStarted = false;
  #model = "";
  #isDone = false;

  constructor(request: GenerateRequest) {
    const count = request.prompts.length * request.n;
    this.#choices = Array.from({ length: count }, (_, choice) => new ChoiceReader(choice));
  }

  /** True once the stream has sent `[DONE]`. A stream that ends earlier was cut off. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** The model's name in the stream; "" before the first event. */
  get model(): string {
    return this.#model;
  }

  /**
   * Reads the data of one server-sent event. Throws the error that the stream reports, and `engine_failed` for data
   * that does not have the format of the API.
   */
  read(data: string): AnswerEvent[] {
    if (this.#isDone) return [];
    if (data === "[DONE]") return this.#done();
    const chunk = parseJson(data, "the stream has an event that is not JSON", upstreamErrors);
    const error = getMember(chunk, "error");
    if (error !== undefined) throw parseErrorEnvelope(error);
    this.#model ||= getStringMember(chunk, "model") ?? "";
    const started = getMember(chunk, "svc_started");
    if (started !== undefined) return [this.#started(started)];
    const choices = getArrayMember(chunk, "choices");
    if (!choices) throw malformedResponseError("the stream has a chunk without choices");
    const events = choices.flatMap((choice) => this.#choice(choice));
    const usage = getMember(chunk, "usage");
    return usage === undefined || usage === null ? events : [...events, ...this.#usage(usage)];
  }

  #started(value: unknown): AnswerEvent {
    this.#hasStarted = true;
    return {
      type: "started",
      prompt: getCountMember(value, "prompt") ?? 0,
      promptTokens: getCountMember(value, "prompt_tokens") ?? 0,
      cachedTokens: getCountMember(value, "cached_tokens") ?? 0,
    };
  }

  #choice(value: unknown): AnswerEvent[] {
    const choice = getCountMember(value, "index");
    const reader = choice === undefined ? undefined : this.#choices[choice];
    if (choice === undefined || !reader || this.#ended.has(choice))
      throw malformedResponseError("the stream has a choice that was not requested");
    const events = [...reader.read(value)];
    const reason = getMember(value, "finish_reason");
    if (reason === null || reason === undefined) return events;
    if (reason !== "stop" && reason !== "length" && reason !== "tool_calls")
      throw malformedResponseError("the stream has an unknown finish_reason");
    this.#ended.add(choice);
    events.push(...reader.end());
    const counts = getMember(value, "svc_tokens");
    const end = createEndEvent(choice, reason, {
      completionTokens: getCountMember(counts, "completion_tokens"),
      reasoningTokens: getCountMember(counts, "reasoning_tokens"),
    });
    if (counts !== undefined) return [...events, end];
    this.#pendingEnds.push(end);
    return events;
  }

  *#usage(value: unknown): Generator<AnswerEvent> {
    const usage = parseUsage(value);
    if (!this.#hasStarted)
      yield this.#started({
        prompt_tokens: usage.promptTokens,
        cached_tokens: usage.cachedTokens,
      });
    for (const [index, end] of this.#pendingEnds.splice(0).entries()) {
      const isLast = index + 1 === this.#ended.size;
      yield isLast ? createEndEvent(end.choice, end.reason, usage) : end;
    }
  }

  #done(): AnswerEvent[] {
    if (this.#ended.size < this.#choices.length)
      throw malformedResponseError("the stream ended before all choices were complete");
    this.#isDone = true;
    return this.#pendingEnds.splice(0);
  }
}
