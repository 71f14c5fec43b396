import type { Provider } from "../port.ts";

/**
 * Requests to providers, one attempt each. A connection is made only to an address of the provider's own
 * class, which was looked at before (`unreachable` otherwise); no redirect is followed; connections are kept.
 */
export interface ProviderHttp {
  /**
   * Resolves to an answer of 2xx whose body is still to be read. Any other is the ProviderRefusal that it means:
   * 401 and 403 `unauthorized`, 404 `model_not_found`, 408 and silence `timeout`, 429 `rate_limited` with
   * its Retry-After, 5xx `provider_failed`, 400, 413 and 422 `invalid_request`, a redirect or what is no answer
   * `bad_response`. Nobody there is `unreachable`. Rejects with the signal's reason. No message holds a
   * key, and of what the provider says at most 300 characters, in one line.
   */
  open(call: ProviderCall, signal: AbortSignal): Promise<ProviderAnswer>;
}

export interface ProviderCall {
  readonly provider: Pick<Provider, "id" | "baseUrl" | "addressClass">;
  readonly method: "GET" | "POST";
  /** Behind the base URL: `/chat/completions`. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body: unknown;
  /** The credential; undefined: none is sent. */
  readonly bearer: string | undefined;
  readonly limits: ProviderLimits;
}

export interface ProviderLimits {
  /** Until the head of the answer is there. */
  readonly headMs: number;
  /** Between two pieces of the body. */
  readonly silentMs: number;
  /** Of the body. */
  readonly bytesMax: number;
}

export interface ProviderAnswer {
  readonly status: number;
  /** Lower-case, without parameters: `text/event-stream`. */
  readonly contentType: string;
  /**
   * The body, once. Ends with the AssistantError `cut_off` where the connection does, `timeout` after silence,
   * `bad_response` past the bytes, and the signal's reason. Leaving it frees the connection.
   */
  body(): AsyncIterable<Uint8Array>;
}
