import { BerthError, getErrorCode, isAbortError } from "../../base/errors.ts";
import { ApiError } from "./api-error.ts";

export type QueryParameters = Readonly<Record<string, string | number | boolean | undefined>>;

export interface RequestOptions {
  readonly query?: QueryParameters;
  /** A body that is sent as JSON. */
  readonly body?: unknown;
  /** A body that is sent as a stream. `headers` must contain its content type. */
  readonly stream?: AsyncIterable<Uint8Array>;
  readonly accept?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export interface ClientOptions {
  /** The origin of the server, such as http://127.0.0.1:7776. */
  readonly baseUrl: string;
  readonly token?: string | undefined;
  readonly fetch?: typeof globalThis.fetch;
}

/** Sends requests. Any status except 2xx is thrown as an ApiError. */
export class Transport {
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: ClientOptions) {
    this.#base = parseBase(options.baseUrl);
    this.#token = options.token;
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  get origin(): string {
    return this.#base.origin;
  }

  /**
   * Sends one request. `path` must already be encoded. Rejects with ApiError, or with BerthError `server_unreachable`
   * if no server answers.
   */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const url = new URL(`${this.#base.pathname.replace(/\/$/, "")}${path}`, this.#base);
    for (const [key, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(key, String(value));
    }
    const headers = new Headers(options.headers);
    headers.set("accept", options.accept ?? "application/json");
    if (this.#token !== undefined) headers.set("authorization", `Bearer ${this.#token}`);
    if (options.body !== undefined) headers.set("content-type", "application/json");
    const body = options.body === undefined ? null : JSON.stringify(options.body);
    let response: Response;
    try {
      response = await this.#fetch(url, {
        method,
        headers,
        ...(options.stream === undefined
          ? { body }
          : { body: ReadableStream.from(options.stream), duplex: "half" as const }),
        ...(options.signal ? { signal: options.signal } : {}),
      });
    } catch (error) {
      if (isAbortError(error) || options.signal?.aborted === true) throw error;
      throw serverUnreachable(this.#base.origin, error);
    }
    if (!response.ok) throw await toApiError(response);
    return response;
  }

  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.send(method, path, options);
    return readJson<T>(response);
  }
}

/** Reads the JSON body of a response, typed by the schema of its route. */
export async function readJson<T>(response: Response): Promise<T> {
  return decodeJson<T>(await response.text());
}

/**
 * Parses JSON from the server. Client and server import its type from `resources/wire`. The JSON is not validated, so
 * that an older client accepts new fields of a newer server.
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the shape
export function decodeJson<T>(text: string): T {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server serializes with the same schema
    return JSON.parse(text) as T;
  } catch (error) {
    throw new BerthError("internal", "the server's answer is not JSON", {
      hint: "check that the URL is that of a Berth server",
      cause: error,
    });
  }
}

/** Encodes one segment of a path, including any slash in it. */
export function encodeSegment(name: string): string {
  // Segments `.` and `..` are refused, because the class URL removes them even if they are percent-encoded.
  if (name === "" || name === "." || name === "..") {
    throw new BerthError("invalid_request", `"${name}" is not a valid name`);
  }
  return encodeURIComponent(name);
}

function parseBase(baseUrl: string): URL {
  const url = URL.parse(baseUrl) ?? undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new BerthError("invalid_request", `"${baseUrl}" is not the URL of a server`, {
      hint: "write it as http://127.0.0.1:7776",
    });
  }
  return url;
}

function serverUnreachable(origin: string, cause: unknown): BerthError {
  const reason = cause instanceof Error ? describeCause(cause) : "no answer";
  return new BerthError("server_unreachable", `no Berth server answers at ${origin}: ${reason}`, {
    hint: isUntrusted(cause)
      ? "if the server has created its own certificate authority, trust the root certificate of this authority: NODE_EXTRA_CA_CERTS=root.crt berth ..."
      : "start a server with `berth up`, or name another one with --url or BERTH_URL",
    cause,
  });
}

/** True if the server's certificate comes from an authority that this machine does not trust. */
function isUntrusted(error: unknown): boolean {
  const codes = [
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  ];
  return error instanceof Error && codes.includes(getErrorCode(error.cause) ?? "");
}

/**
 * Finds the reason of a failed request in `cause`, where fetch puts it, possibly below an AggregateError for IPv4 and
 * IPv6.
 */
function describeCause(error: Error): string {
  const cause: unknown = error.cause;
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) {
    return cause.errors[0].message;
  }
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}

async function toApiError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  const retryAfter = Number(response.headers.get("retry-after"));
  return new ApiError(
    response.status,
    readErrorText(text) ?? `the server answered ${response.status} ${response.statusText}`.trim(),
    {
      code: response.headers.get("x-error-code") ?? undefined,
      requestId: response.headers.get("x-request-id") ?? undefined,
      retryAfterSeconds: retryAfter > 0 ? retryAfter : undefined,
    },
  );
}

function readErrorText(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && "error" in body) {
      return typeof body.error === "string" ? body.error : undefined;
    }
  } catch {
    // A proxy may answer with HTML. Then the status is the only information.
  }
  return undefined;
}
