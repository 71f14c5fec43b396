import { type Dispatcher, request } from "undici";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import { toLoggableCode } from "./sign-in-failure.ts";

/** No metadata, key set or token answer is near this. */
const BODY_BYTES_MAX = 256 * 1024;

export interface SignInRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: URLSearchParams | string | undefined | null;
  readonly signal?: AbortSignal | undefined;
}

export interface SignInHttpClientOptions {
  readonly dispatcher: Dispatcher;
  /** From a request's begin to the last byte of its answer. */
  readonly limitMs: number;
  /** Http to this machine. For a provider that is on it itself, and for no other. */
  readonly isLoopbackAllowed: boolean;
}

/** Requests to where a provider signs people in. No redirect is followed: what is sent may hold a code or a token. */
export class SignInHttpClient {
  readonly #options: SignInHttpClientOptions;

  constructor(options: SignInHttpClientOptions) {
    this.#options = options;
  }

  /**
   * The answer, read whole; any status is one. `unreachable` where there is none in time, `bad_response` for one
   * that is too large and for an address that may not be asked; the signal's reason. No message holds an address.
   */
  async send(address: string, init: SignInRequest): Promise<Response> {
    if (!this.isAllowed(address))
      throw new AssistantError(
        "bad_response",
        "the sign-in names an address that is not https, which is not asked",
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
      // Not as its cause: what undici throws may hold what it has read.
      throw new AssistantError(
        "unreachable",
        limit.signal.aborted
          ? `the sign-in did not answer within ${this.#options.limitMs / 1000} s`
          : `the sign-in cannot be reached (${getErrorCode(error)}); look at the network, and try again`,
      );
    }
  }

  /** Also for the address that the person's browser is sent to. */
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
    // Leaving the loop destroys the body, and with it the connection.
    if (bytes > BODY_BYTES_MAX)
      throw new AssistantError(
        "bad_response",
        `the sign-in answers with more than ${BODY_BYTES_MAX / 1024} KiB`,
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
    throw new AssistantError("bad_response", "the sign-in answers with no status that there is");
  }
}

function getErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? toLoggableCode(error.code) : "unknown";
}
