import type { Provider } from "../port.ts";

/**
 * Sends requests to providers, one attempt each. A connection is made only to an address of the provider's pinned
 * class, which is checked each time (`unreachable` otherwise). Redirects are not followed. Connections are reused.
 */
export interface ProviderHttp {
  /**
   * Resolves to an answer with status 2xx whose body is not read yet. Rejects with a ProviderRefusal otherwise. Its
   * code is `unauthorized` for status 401 and 403, `model_not_found` for 404, `timeout` for 408 and if the provider
   * sends nothing, `rate_limited` for 429 (with the Retry-After), `provider_failed` for 5xx, `invalid_request` for 400,
   * 413 and 422, `bad_response` for a redirect or an invalid answer, and `unreachable` for a failed connection. Rejects
   * with the signal's reason after an abort. Messages never contain a key, and quote at most 300 characters of the
   * provider's message, on one line.
   */
  open(call: ProviderCall, signal: AbortSignal): Promise<ProviderAnswer>;
}

export interface ProviderCall {
  readonly provider: Pick<Provider, "id" | "baseUrl" | "addressClass">;
  readonly method: "GET" | "POST";
  /** The path that is appended to the base URL, for example `/chat/completions`. */
  readonly path: string;
  /** The body of the request, which is sent as JSON. */
  readonly body: unknown;
  /** The token for the Authorization header; undefined if the provider needs none. */
  readonly bearer: string | undefined;
  readonly limits: ProviderLimits;
}

export interface ProviderLimits {
  /** The longest time until the head of the answer arrives. */
  readonly headMs: number;
  /** The longest time between two pieces of the body. */
  readonly silentMs: number;
  /** The largest size of the body. */
  readonly bytesMax: number;
}

export interface ProviderAnswer {
  readonly status: number;
  /** The media type in lower case without parameters, for example `text/event-stream`. */
  readonly contentType: string;
  /**
   * Returns the body, which may be read only once. Rejects with AssistantError `cut_off` if the connection ends,
   * `timeout` after silence, `bad_response` above the size limit, and with the signal's reason. Ending the loop early
   * frees the connection.
   */
  body(): AsyncIterable<Uint8Array>;
}
