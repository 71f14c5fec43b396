import { BerthError, type ErrorCode, isAbort } from "../../base/errors.ts";
import { readEvents } from "./server-sent-events.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ChatRequest {
  /** Without it, the assistant's default. */
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number | undefined;
  /** -1: as many as the context holds. */
  readonly maxTokens?: number | undefined;
}

/** What comes of an answer, in its order; `end` is the last one. */
export type ChatPiece = { readonly type: "text" | "thought"; readonly text: string } | ChatEnd;

export interface ChatEnd {
  readonly type: "end";
  /** As the assistant names it. */
  readonly model: string | null;
  /** stop; length: a limit cut it off. */
  readonly finishReason: string;
  readonly usage: ChatUsage | null;
}

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** Of GET /v1/models, as far as it is shown. */
export interface ServedModel {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly kind: string;
  readonly state: string;
  readonly context_length: number | null;
  /** Why it has failed. */
  readonly error?: string;
}

/** An error that the assistant answered, also in the middle of a stream. */
export class ChatError extends BerthError {
  /** As in docs/assistant-errors.md, such as `no_model`; "" where it gave none. */
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

/** The assistant's chat over HTTP, as any client of the convention would use it. */
export class ChatClient {
  readonly #url: string;
  readonly #fetch: typeof globalThis.fetch;

  /** `url` as http://127.0.0.1:7777, with or without `/v1`. Throws `invalid_request` for anything else. */
  constructor(options: { readonly url: string; readonly fetch?: typeof globalThis.fetch }) {
    this.#url = baseOf(options.url);
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** Without `/v1`. */
  get url(): string {
    return this.#url;
  }

  /** The default one first. Throws ChatError, and BerthError `assistant_unreachable`. */
  async models(signal?: AbortSignal): Promise<readonly ServedModel[]> {
    const response = await this.#send("/v1/models", { signal: signal ?? null });
    const body = parsed(await response.text());
    const data = field(body, "data");
    if (!Array.isArray(data)) throw notTheAssistant(this.#url);
    return data.map((model: unknown) => servedModel(model));
  }

  /**
   * One answer, as it comes. Throws ChatError where it is refused, or breaks off with a reason; BerthError
   * `assistant_unreachable` where nobody answers, or the connection is lost; the abort of the signal.
   */
  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatPiece> {
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
    let end: ChatEnd = { type: "end", model: null, finishReason: "", usage: null };
    try {
      for await (const { data } of readEvents(response)) {
        if (data === "[DONE]") {
          yield end;
          return;
        }
        const chunk = parsed(data);
        const failure = errorOf(chunk);
        if (failure !== undefined) throw failure;
        end = { ...end, ...endOf(chunk, end) };
        yield* piecesOf(chunk);
      }
    } catch (error) {
      if (error instanceof BerthError || isAbort(error) || signal.aborted) throw error;
      throw broken(this.#url, error);
    }
    throw broken(this.#url, undefined);
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await this.#fetch(`${this.#url}${path}`, init);
    } catch (error) {
      if (isAbort(error) || init.signal?.aborted === true) throw error;
      throw new BerthError("assistant_unreachable", `no assistant answers at ${this.#url}`, {
        hint: "`berth up` starts it; `berth status` tells how it is",
        cause: error,
      });
    }
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw errorOf(parsedOrNothing(text)) ?? notTheAssistant(this.#url, response.status);
  }
}

function baseOf(url: string): string {
  const base = URL.parse(url) ?? undefined;
  if (base === undefined || (base.protocol !== "http:" && base.protocol !== "https:"))
    throw new BerthError("invalid_request", `"${url}" is not the URL of an assistant`, {
      hint: "write it as http://127.0.0.1:7777",
    });
  return `${base.origin}${base.pathname.replace(/\/(v1\/?)?$/, "")}`;
}

function notTheAssistant(url: string, status?: number): BerthError {
  const what = status === undefined ? "something else" : `with ${status}`;
  return new BerthError("assistant_unreachable", `what answers at ${url} answers ${what}`, {
    hint: "check that the URL is that of Berth's assistant, such as http://127.0.0.1:7777",
  });
}

function broken(url: string, cause: unknown): BerthError {
  return new BerthError("assistant_unreachable", `the assistant at ${url} broke off`, {
    hint: "ask again in a moment; `berth status` tells how it is",
    cause,
  });
}

function errorOf(body: unknown): ChatError | undefined {
  const error = field(body, "error");
  const message = field(error, "message");
  if (typeof message !== "string") return undefined;
  const code = field(error, "code");
  return new ChatError(typeof code === "string" ? code : "", message);
}

function endOf(chunk: unknown, before: ChatEnd): Partial<ChatEnd> {
  const model = field(chunk, "model");
  const reason = field(choiceOf(chunk), "finish_reason");
  const usage = field(chunk, "usage");
  return {
    model: typeof model === "string" ? model : before.model,
    finishReason: typeof reason === "string" ? reason : before.finishReason,
    usage: isUsage(usage) ? usage : before.usage,
  };
}

function isUsage(value: unknown): value is ChatUsage {
  return (
    typeof field(value, "prompt_tokens") === "number" &&
    typeof field(value, "completion_tokens") === "number" &&
    typeof field(value, "total_tokens") === "number"
  );
}

function* piecesOf(chunk: unknown): Generator<ChatPiece> {
  const delta = field(choiceOf(chunk), "delta");
  const thought = field(delta, "reasoning_content");
  if (typeof thought === "string" && thought !== "") yield { type: "thought", text: thought };
  const text = field(delta, "content");
  if (typeof text === "string" && text !== "") yield { type: "text", text };
}

function choiceOf(chunk: unknown): unknown {
  const choices = field(chunk, "choices");
  return Array.isArray(choices) ? choices[0] : undefined;
}

function servedModel(value: unknown): ServedModel {
  const text = (name: string) => {
    const found = field(value, name);
    return typeof found === "string" ? found : "";
  };
  const aliases = field(value, "aliases");
  const context = field(value, "context_length");
  const error = text("error");
  return {
    id: text("id"),
    aliases: Array.isArray(aliases) ? aliases.filter((alias) => typeof alias === "string") : [],
    kind: text("kind"),
    state: text("state"),
    context_length: typeof context === "number" ? context : null,
    ...(error === "" ? {} : { error }),
  };
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BerthError("assistant_unreachable", "what answers is not JSON", {
      hint: "check that the URL is that of Berth's assistant, such as http://127.0.0.1:7777",
      cause: error,
    });
  }
}

function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
