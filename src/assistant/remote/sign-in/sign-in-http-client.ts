import { type Dispatcher, request } from "undici";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import { toLoggableCode } from "./sign-in-failure.ts";

/** The largest size of an answer. It is far above the size of metadata, key sets and token answers. */
const BODY_BYTES_MAX = 256 * 1024;

export interface SignInRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: URLSearchParams | string | undefined | null;
  readonly signal?: AbortSignal | undefined;
}

export interface SignInHttpClientOptions {
  readonly dispatcher: Dispatcher;
  /** The longest time from the start of a request to the last byte of its answer. */
  readonly limitMs: number;
  /** If true, http is allowed for addresses of this machine, for providers that run on it. */
  readonly isLoopbackAllowed: boolean;
}

/**
 * Sends requests to the sign-in servers of providers. Redirects are not followed, because a request may contain a code
 * or a token.
 */
export class SignInHttpClient {
  readonly #options: SignInHttpClientOptions;

  constructor(options: SignInHttpClientOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the whole answer, whatever its status. Rejects with `unreachable` if the answer does not arrive in
   * time, with `bad_response` for an answer that is too large and for an address that is not allowed, and with the
   * signal's reason. Messages contain no address.
   */
  async send(address: string, init: SignInRequest): Promise<Response> {
    if (!this.isAllowed(address))
      throw new AssistantError(
        "bad_response",
        "the sign-in's metadata has an address without https, which Berth does not contact",
      );
    const parent = init.signal ?? new AbortController().signal;
    parent.throwIfAborted();
    using limit = createTimeLimit(parent, this.#options.limitMs);
    try {
      const answer = await request(address, {
        method: init.method,
        headers: { ...init.headers, "user-agent": "berth" },
        body: init.body instanceof URLSearchParams ? init.body.toString() : (init.body ?? null),
        signal: limit.signal,
        dispatcher: this.#options.dispatcher,
      });
      return toResponse(answer, await readBody(answer.body));
    } catch (error) {
      if (parent.aborted) throw parent.reason;
      if (error instanceof AssistantError) throw error;
      // The error is not set as the cause, because an error of undici may contain data that was received.
      throw new AssistantError(
        "unreachable",
        limit.signal.aborted
          ? `the sign-in server did not answer within ${this.#options.limitMs / 1000} s`
          : `the sign-in server cannot be reached (${getErrorCode(error)}); check the network and try again`,
      );
    }
  }

  /** Returns true if requests to this address are allowed. Also used for the address that the user's browser opens. */
  isAllowed(address: string): boolean {
    const url = URL.parse(address);
    if (!url) return false;
    if (url.username !== "" || url.password !== "") return false;
    return url.protocol === "https:" || (this.#options.isLoopbackAllowed && isLoopbackHttp(url));
  }
}

export function isLoopbackHttp({ protocol, hostname }: URL): boolean {
  const isHere =
    hostname === "localhost" || hostname === "[::1]" || /^127(\.[0-9]{1,3}){3}$/.test(hostname);
  return protocol === "http:" && isHere;
}

async function readBody(body: Dispatcher.ResponseData["body"]): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    if (!Buffer.isBuffer(part)) continue;
    bytes += part.length;
    // Leaving the loop destroys the body, which closes the connection.
    if (bytes > BODY_BYTES_MAX)
      throw new AssistantError(
        "bad_response",
        `the sign-in server answers with more than ${BODY_BYTES_MAX / 1024} KiB`,
      );
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function toResponse(answer: Dispatcher.ResponseData, body: Buffer): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    for (const one of Array.isArray(value) ? value : [value ?? ""]) headers.append(name, one);
  }
  const hasBody = ![204, 205, 304].includes(answer.statusCode);
  try {
    return new Response(hasBody ? new Uint8Array(body) : null, {
      status: answer.statusCode,
      headers,
    });
  } catch {
    throw new AssistantError("bad_response", "the sign-in server answers with an invalid status");
  }
}

function getErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? toLoggableCode(error.code) : "unknown";
}
