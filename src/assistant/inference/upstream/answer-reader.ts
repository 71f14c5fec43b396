import type { AnswerEvent, GenerateRequest } from "../service-port.ts";
import { ChoiceReader } from "../wire/choice-reader.ts";
import { type EndEvent, endOf, usageOf } from "../wire/usage.ts";
import { countMember, listMember, member, textMember } from "../wire/wire-value.ts";
import { parsedJson } from "../wire/wire-words.ts";
import { errorOf, notUnderstood, upstreamWords } from "./wire-error.ts";

/**
 * Turns the events of a stream into those of the port. The system instance tells counts as they become
 * known; from one that does not (an older one), they come with the usage at the end: then `started`
 * comes last but for the ends, and the first prompt and the last choice have the counts of all.
 */
export class AnswerReader {
  readonly #choices: readonly ChoiceReader[];
  /** Ends that came without counts wait for the usage. */
  readonly #waiting: EndEvent[] = [];
  readonly #ended = new Set<number>();
  #hasStarted = false;
  #model = "";
  #isDone = false;

  constructor(request: GenerateRequest) {
    const count = request.prompts.length * request.n;
    this.#choices = Array.from({ length: count }, (_, choice) => new ChoiceReader(choice));
  }

  /** The stream has come to its end, as opposed to having been cut. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** As the stream names it; "" before anything was read. */
  get model(): string {
    return this.#model;
  }

  /** Throws what the stream says went wrong, and `engine_failed` for what is not understood. */
  read(data: string): AnswerEvent[] {
    if (this.#isDone) return [];
    if (data === "[DONE]") return this.#done();
    const chunk = parsedJson(data, "an event that is no JSON", upstreamWords);
    const error = member(chunk, "error");
    if (error !== undefined) throw errorOf(error);
    this.#model ||= textMember(chunk, "model") ?? "";
    const started = member(chunk, "svc_started");
    if (started !== undefined) return [this.#started(started)];
    const choices = listMember(chunk, "choices");
    if (!choices) throw notUnderstood("a chunk without choices");
    const events = choices.flatMap((choice) => this.#choice(choice));
    const usage = member(chunk, "usage");
    return usage === undefined || usage === null ? events : [...events, ...this.#usage(usage)];
  }

  #started(value: unknown): AnswerEvent {
    this.#hasStarted = true;
    return {
      type: "started",
      prompt: countMember(value, "prompt") ?? 0,
      promptTokens: countMember(value, "prompt_tokens") ?? 0,
      cachedTokens: countMember(value, "cached_tokens") ?? 0,
    };
  }

  #choice(value: unknown): AnswerEvent[] {
    const choice = countMember(value, "index");
    const reader = choice === undefined ? undefined : this.#choices[choice];
    if (choice === undefined || !reader || this.#ended.has(choice))
      throw notUnderstood("a choice that nobody asked for");
    const events = [...reader.read(value)];
    const reason = member(value, "finish_reason");
    if (reason === null || reason === undefined) return events;
    if (reason !== "stop" && reason !== "length" && reason !== "tool_calls")
      throw notUnderstood("an unknown finish_reason");
    this.#ended.add(choice);
    events.push(...reader.end());
    const counts = member(value, "svc_tokens");
    const end = endOf(choice, reason, {
      completionTokens: countMember(counts, "completion_tokens"),
      reasoningTokens: countMember(counts, "reasoning_tokens"),
    });
    if (counts !== undefined) return [...events, end];
    this.#waiting.push(end);
    return events;
  }

  *#usage(value: unknown): Generator<AnswerEvent> {
    const usage = usageOf(value);
    if (!this.#hasStarted)
      yield this.#started({
        prompt_tokens: usage.promptTokens,
        cached_tokens: usage.cachedTokens,
      });
    for (const [index, end] of this.#waiting.splice(0).entries()) {
      const isLast = index + 1 === this.#ended.size;
      yield isLast ? endOf(end.choice, end.reason, usage) : end;
    }
  }

  #done(): AnswerEvent[] {
    if (this.#ended.size < this.#choices.length) throw notUnderstood("an end without all choices");
    this.#isDone = true;
    return this.#waiting.splice(0);
  }
}
