import type { TokenLogprob } from "../runner.ts";
import type { AnswerEvent, GenerateRequest } from "../service-port.ts";
import { errorOf, notUnderstood } from "./wire-error.ts";
import { countMember, listMember, member, textMember } from "./wire-value.ts";

type EndEvent = Extract<AnswerEvent, { readonly type: "end" }>;

/**
 * Turns the events of a stream into those of the port. The system instance tells counts as they become
 * known; from one that does not (an older one), they come with the usage at the end: then `started`
 * comes last but for the ends, and the first prompt and the last choice have the counts of all.
 */
export class AnswerReader {
  readonly #choices: number;
  /** Ends that came without counts wait for the usage. */
  readonly #waiting: EndEvent[] = [];
  readonly #ended = new Set<number>();
  #hasStarted = false;
  #model = "";
  #isDone = false;

  constructor(request: GenerateRequest) {
    this.#choices = request.prompts.length * request.n;
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
    const chunk = parsed(data);
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
    if (choice === undefined || choice >= this.#choices || this.#ended.has(choice))
      throw notUnderstood("a choice that nobody asked for");
    const events = [...this.#deltas(choice, value)];
    const reason = member(value, "finish_reason");
    if (reason === null || reason === undefined) return events;
    if (reason !== "stop" && reason !== "length" && reason !== "tool_calls")
      throw notUnderstood("an unknown finish_reason");
    this.#ended.add(choice);
    const counts = member(value, "svc_tokens");
    const end = endOf(choice, reason, counts);
    if (counts !== undefined) return [...events, end];
    this.#waiting.push(end);
    return events;
  }

  *#deltas(choice: number, value: unknown): Generator<AnswerEvent> {
    const delta = member(value, "delta");
    const reasoning = textMember(delta, "reasoning_content");
    if (reasoning !== undefined && reasoning !== "")
      yield { type: "reasoning", choice, text: reasoning };
    const text = textMember(delta, "content") ?? textMember(value, "text") ?? "";
    const logprobs = logprobsOf(member(value, "logprobs"));
    if (text !== "" || logprobs)
      yield { type: "text", choice, text, ...(logprobs && { logprobs }) };
    for (const call of listMember(delta, "tool_calls") ?? []) {
      const wanted = member(call, "function");
      const id = textMember(call, "id");
      yield {
        type: "tool_call",
        choice,
        index: countMember(call, "index") ?? 0,
        ...(id === undefined ? {} : { start: { id, name: textMember(wanted, "name") ?? "" } }),
        arguments: textMember(wanted, "arguments") ?? "",
      };
    }
  }

  *#usage(usage: unknown): Generator<AnswerEvent> {
    const prompt = member(usage, "prompt_tokens_details");
    if (!this.#hasStarted)
      yield this.#started({
        prompt_tokens: countMember(usage, "prompt_tokens"),
        cached_tokens: countMember(prompt, "cached_tokens"),
      });
    const completion = member(usage, "completion_tokens_details");
    for (const [index, end] of this.#waiting.splice(0).entries()) {
      const isLast = index + 1 === this.#ended.size;
      yield isLast
        ? endOf(end.choice, end.reason, {
            completion_tokens: countMember(usage, "completion_tokens"),
            reasoning_tokens: countMember(completion, "reasoning_tokens"),
          })
        : end;
    }
  }

  #done(): AnswerEvent[] {
    if (this.#ended.size < this.#choices) throw notUnderstood("an end without all choices");
    this.#isDone = true;
    return this.#waiting.splice(0);
  }
}

function endOf(choice: number, reason: EndEvent["reason"], counts: unknown): EndEvent {
  const reasoningTokens = countMember(counts, "reasoning_tokens");
  return {
    type: "end",
    choice,
    reason,
    completionTokens: countMember(counts, "completion_tokens") ?? 0,
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (error) {
    throw notUnderstood("an event that is no JSON", error);
  }
}

/** Of chat answers, or of plain completions, which tell no bytes: they are those of the text then. */
function logprobsOf(value: unknown): TokenLogprob[] | undefined {
  const content = listMember(value, "content");
  if (content)
    return content.map((token) => ({
      ...chatToken(token),
      top: (listMember(token, "top_logprobs") ?? []).map((other) => chatToken(other)),
    }));
  const tokens = listMember(value, "tokens");
  if (!tokens) return undefined;
  const logprobs = listMember(value, "token_logprobs") ?? [];
  const tops = listMember(value, "top_logprobs") ?? [];
  return tokens.map((token, index) => ({
    ...plainToken(token, logprobs[index]),
    top: Object.entries(Object(tops[index] ?? {})).map(([text, logprob]) =>
      plainToken(text, logprob),
    ),
  }));
}

function chatToken(token: unknown) {
  const bytes = listMember(token, "bytes") ?? [];
  return {
    text: textMember(token, "token") ?? "",
    bytes: bytes.filter((byte) => typeof byte === "number"),
    logprob: logprobOf(member(token, "logprob")),
  };
}

function plainToken(token: unknown, logprob: unknown) {
  const text = typeof token === "string" ? token : "";
  return { text, bytes: [...Buffer.from(text)], logprob: logprobOf(logprob) };
}

function logprobOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NEGATIVE_INFINITY;
}
