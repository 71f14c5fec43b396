import { BerthError, type ErrorCode, isAbortError } from "../../base/errors.ts";
import { tryParseJson } from "../../base/json.ts";
import { type AnswerDelta, ChoiceReader } from "../../base/openai-wire/choice-reader.ts";
import {
  getArrayMember,
  getCountMember,
  getMember,
  getStringMember,
} from "../../base/openai-wire/json-members.ts";
import { parseModelList, parseWireModel } from "../../base/openai-wire/model-list.ts";
import { readEvents } from "./server-sent-events.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ChatRequest {
  /** The model to use; undefined means the assistant's default model. */
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number | undefined;
  /** The largest number of tokens of the answer; with -1, only the model's context limits the answer. */
  readonly maxTokens?: number | undefined;
}

/** The events of an answer, in the order in which they arrive; `end` is the last event. */
export type ChatEvent = { readonly type: "text" | "thought"; readonly text: string } | ChatEndEvent;

export interface ChatEndEvent {
  readonly type: "end";
  /** The id of the model that answered. */
  readonly model: string | null;
  /** The reason why the answer ended: `stop`, or `length` if a limit ended it. */
  readonly finishReason: string;
  readonly usage: ChatUsage | null;
}

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** The part of a model in `GET /v1/models` that the command line shows. */
export interface ServedModel {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly kind: string;
  readonly state: string;
  readonly context_length: number | null;
  /** The reason why the model failed; absent if it has not failed. */
  readonly error?: string;
}

/** An error response of the assistant, or an error event in a stream. */
export class ChatError extends BerthError {
  /** A code of docs/assistant-errors.md, such as `no_model`; empty if the response has none. */
  readonly reason: string;

  constructor(reason: string, message: string, options: { cause?: unknown } = {}) {
    super(codes[reason] ?? "internal", message, options);
    this.reason = reason;
  }
}

const codes: Readonly<Record<string, ErrorCode>> = {
  invalid_request: "invalid_request",
  unsupported_parameter: "invalid_request",
  context_length_exceeded: "invalid_request",
  model_unsuitable: "invalid_request",
  model_not_found: "not_found",
  no_model: "not_found",
  model_unusable: "model_unusable",
  insufficient_memory: "insufficient_memory",
  queue_full: "too_many_requests",
  timeout: "timeout",
  payload_too_large: "payload_too_large",
  forbidden: "forbidden",
  not_found: "not_found",
  shutting_down: "assistant_unreachable",
  consent_required: "consent_required",
  unauthorized: "provider_denied",
  unreachable: "provider_unreachable",
  rate_limited: "too_many_requests",
  limits_exceeded: "too_many_requests",
  provider_failed: "provider_failed",
  cut_off: "provider_failed",
  bad_response: "provider_failed",
  cancelled: "wrong_state",
};

/** A client of the assistant's chat-completions endpoint. */
export class ChatClient {
  readonly #url: string;
  readonly #fetch: typeof globalThis.fetch;

  /**
   * Creates a client for `url`, such as http://127.0.0.1:7777, with or without `/v1`. Throws BerthError
   * `invalid_request` if `url` is not such a URL.
   */
  constructor(options: { readonly url: string; readonly fetch?: typeof globalThis.fetch }) {
    this.#url = parseBaseUrl(options.url);
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** The URL of the assistant without `/v1`. */
  get url(): string {
    return this.#url;
  }

  /** Returns the models, the default one first. Throws ChatError, or BerthError `assistant_unreachable`. */
  async listModels(signal?: AbortSignal): Promise<readonly ServedModel[]> {
    const response = await this.#send("/v1/models", { signal: signal ?? null });
    const body = parseJson(await response.text());
    const list = parseModelList(body);
    if (!list) throw unexpectedServer(this.#url);
    return list.map((item) => parseServedModel(item));
  }

  /**
   * Yields the events of one answer as they arrive. Throws ChatError if the assistant refuses the request or ends the
   * answer with an error, BerthError `assistant_unreachable` if it does not answer or the connection is lost, and the
   * signal's reason when it aborts.
   */
  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    const response = await this.#send("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: request.model,
        messages: request.messages,
        temperature: request.temperature,
        max_tokens: request.maxTokens,
        stream: true,
        stream_options: { include_usage: true },
      }),
      signal,
    });
    let end: ChatEndEvent = { type: "end", model: null, finishReason: "", usage: null };
    const reader = new ChoiceReader(0);
    try {
      for await (const { data } of readEvents(response)) {
        if (data === "[DONE]") {
          yield* toChatEvents(reader.end());
          yield end;
          return;
        }
        const chunk = parseJson(data);
        const failure = readError(chunk);
        if (failure !== undefined) throw failure;
        end = { ...end, ...mergeEnd(chunk, end) };
        yield* toChatEvents(reader.read(getFirstChoice(chunk)));
      }
    } catch (error) {
      if (error instanceof BerthError || isAbortError(error) || signal.aborted) throw error;
      throw connectionLost(this.#url, error);
    }
    throw connectionLost(this.#url, undefined);
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await this.#fetch(`${this.#url}${path}`, init);
    } catch (error) {
      if (isAbortError(error) || init.signal?.aborted === true) throw error;
      throw new BerthError("assistant_unreachable", `no assistant answers at ${this.#url}`, {
        hint: "`berth up` starts the assistant; `berth status` shows its state",
        cause: error,
      });
    }
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw readError(tryParseJson(text)) ?? unexpectedServer(this.#url, response.status);
  }
}

function parseBaseUrl(url: string): string {
  const base = URL.parse(url) ?? undefined;
  if (base === undefined || (base.protocol !== "http:" && base.protocol !== "https:"))
    throw new BerthError("invalid_request", `"${url}" is not the URL of an assistant`, {
      hint: "write the URL as http://127.0.0.1:7777",
    });
  return `${base.origin}${base.pathname.replace(/\/(v1\/?)?$/, "")}`;
}

function unexpectedServer(url: string, status?: number): BerthError {
  const what = status === undefined ? "with unexpected data" : `with ${status}`;
  return new BerthError("assistant_unreachable", `the server at ${url} answered ${what}`, {
    hint: "check that the URL is that of Berth's assistant, such as http://127.0.0.1:7777",
  });
}

function connectionLost(url: string, cause: unknown): BerthError {
  return new BerthError(
    "assistant_unreachable",
    `the connection to the assistant at ${url} was lost`,
    {
      hint: "try again in a moment; `berth status` shows the state of the assistant",
      cause,
    },
  );
}

function readError(body: unknown): ChatError | undefined {
  const error = getMember(body, "error");
  const message = getStringMember(error, "message");
  if (message === undefined) return undefined;
  return new ChatError(getStringMember(error, "code") ?? "", message);
}

function mergeEnd(chunk: unknown, before: ChatEndEvent): Partial<ChatEndEvent> {
  const usage = getMember(chunk, "usage");
  return {
    model: getStringMember(chunk, "model") ?? before.model,
    finishReason: getStringMember(getFirstChoice(chunk), "finish_reason") ?? before.finishReason,
    usage: isUsage(usage) ? usage : before.usage,
  };
}

function isUsage(value: unknown): value is ChatUsage {
  return (
    getCountMember(value, "prompt_tokens") !== undefined &&
    getCountMember(value, "completion_tokens") !== undefined &&
    getCountMember(value, "total_tokens") !== undefined
  );
}

function* toChatEvents(deltas: Iterable<AnswerDelta>): Generator<ChatEvent> {
  for (const delta of deltas) {
    if (delta.type === "reasoning") yield { type: "thought", text: delta.text };
    else if (delta.type === "text" && delta.text !== "") yield { type: "text", text: delta.text };
  }
}

function getFirstChoice(chunk: unknown): unknown {
  return getArrayMember(chunk, "choices")?.[0];
}

function parseServedModel(item: unknown): ServedModel {
  const { id = "", aliases, kind = "", state = "", contextTokens, error } = parseWireModel(item);
  return {
    id,
    aliases,
    kind,
    state,
    context_length: contextTokens ?? null,
    ...(error === undefined || error === "" ? {} : { error }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BerthError("assistant_unreachable", "the server's answer is not JSON", {
      hint: "check that the URL is that of Berth's assistant, such as http://127.0.0.1:7777",
      cause: error,
    });
  }
}
