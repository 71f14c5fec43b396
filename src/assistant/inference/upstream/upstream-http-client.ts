import { once, setMaxListeners } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import { getErrorCode } from "../../../base/errors.ts";
import { tryParseJson } from "../../../base/json.ts";
import { AssistantError } from "../../assistant-error.ts";
import {
  connectionLostError,
  malformedResponseError,
  parseErrorResponse,
  silenceTimeoutError,
  unreachableUpstreamError,
} from "./upstream-errors.ts";

/** The maximum size of an answer, far above one with 2,048 embeddings, which is the largest possible answer. */
const ANSWER_BYTES_MAX = 256 * 2 ** 20;
const SOCKETS_IDLE_MAX = 16;

export interface UpstreamCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  /**
   * The longest time for which `berth assistant --system` may send nothing; undefined if only the caller ends the wait.
   */
  readonly silentMsMax: number | undefined;
}

/** Sends requests to one address over connections that are reused. */
export class UpstreamHttpClient implements Disposable {
  readonly #url: URL;
  readonly #clock: Clock;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: SOCKETS_IDLE_MAX });
  readonly #closing = new AbortController();

  constructor(options: { readonly url: URL; readonly clock: Clock }) {
    this.#url = options.url;
    this.#clock = options.clock;
    // Each call in progress adds a listener, so a large number of listeners is not a leak.
    setMaxListeners(0, this.#closing.signal);
  }

  /**
   * Resolves to an answer with status 200 whose body is not read yet. Rejects with the AssistantError in an answer with
   * another status, with `no_model` if the address refuses connections, or with the signal's reason.
   */
  async open(call: UpstreamCall, signal: AbortSignal): Promise<OpenResponse> {
    const answer = await this.#sendWithRetry(call, signal);
    const { response } = answer;
    if (response.statusCode === 200) return answer;
    const text = await readText(answer);
    throw parseErrorResponse(
      response.statusCode ?? 0,
      tryParseJson(text),
      response.headers["retry-after"],
    );
  }

  /**
   * Resolves to the whole answer, parsed as JSON. Rejects like `open`, and with `engine_failed` if the answer is cut
   * off or not JSON.
   */
  async getJson(call: UpstreamCall, signal: AbortSignal): Promise<unknown> {
    const value = tryParseJson(await readText(await this.open(call, signal)));
    if (value === undefined) throw malformedResponseError("the answer is not JSON");
    return value;
  }

  /** Rejects calls in progress with `shutting_down`. */
  [Symbol.dispose](): void {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    this.#agent.destroy();
  }

  async #sendWithRetry(call: UpstreamCall, signal: AbortSignal): Promise<OpenResponse> {
    for (let tried = 0; ; tried++) {
      const outcome = await this.#send(call, signal);
      if (outcome.kind === "answer") return outcome.answer;
      // The server was just closing this reused connection, so it has read nothing of the request: the request is sent
      // again.
      if (tried === 0 && outcome.wasKept && isConnectionLost(outcome.error)) continue;
      throw toAssistantError(outcome.error, this.#url);
    }
  }

  async #send(call: UpstreamCall, signal: AbortSignal): Promise<Outcome> {
    const signals = [signal, this.#closing.signal];
    throwIfAnyAborted(signals);
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const request = httpRequest(new URL(call.path, this.#url), {
      agent: this.#agent,
      method: call.method,
      headers: {
        accept: "application/json, text/event-stream",
        ...(body && { "content-type": "application/json", "content-length": body.length }),
      },
    });
    const watch = new SilenceWatchdog(this.#clock, call.silentMsMax, signals, () =>
      request.destroy(),
    );
    // Without this handler, an error after the response has arrived would be unhandled. The response reports that error
    // to its own listeners.
    request.on("error", () => {});
    try {
      request.end(body);
      watch.startTimer();
      const [response]: IncomingMessage[] = await once(request, "response");
      if (!response) throw new Error("Node emitted the event 'response' without its argument");
      watch.stopTimer();
      return { kind: "answer", answer: new OpenResponse(response, watch) };
    } catch (error) {
      watch.close();
      watch.throwIfEnded();
      return { kind: "failed", error, wasKept: request.reusedSocket };
    }
  }
}

type Outcome =
  | { readonly kind: "answer"; readonly answer: OpenResponse }
  | { readonly kind: "failed"; readonly error: unknown; readonly wasKept: boolean };

/**
 * An answer whose head has arrived. The connection is read only as fast as the caller pulls `body`. If the caller stops
 * reading `body` early, the connection is closed.
 */
export class OpenResponse {
  readonly response: IncomingMessage;
  readonly #watch: SilenceWatchdog;

  constructor(response: IncomingMessage, watch: SilenceWatchdog) {
    this.response = response;
    this.#watch = watch;
  }

  /** Rejects with `engine_failed` if the body is cut off, `timeout` if nothing arrives, or the signal's reason. */
  async *body(): AsyncGenerator<Buffer, void, void> {
    const watch = this.#watch;
    try {
      watch.startTimer();
      // If the caller stops reading early, this loop ends and destroys `response`, which closes the connection.
      for await (const chunk of this.response) {
        watch.stopTimer();
        yield chunk;
        watch.startTimer();
      }
    } catch (error) {
      watch.throwIfEnded();
      throw connectionLostError(error);
    } finally {
      watch.close();
    }
  }
}

/** Ends a request when its caller aborts, or when nothing arrives for too long while the caller waits. */
class SilenceWatchdog {
  readonly #signals: readonly AbortSignal[];
  #timeoutError: AssistantError | undefined;
  readonly #clock: Clock;
  readonly #silentMsMax: number | undefined;
  readonly #destroy: () => void;
  #stop: (() => void) | undefined;

  constructor(
    clock: Clock,
    silentMsMax: number | undefined,
    signals: readonly AbortSignal[],
    destroy: () => void,
  ) {
    this.#clock = clock;
    this.#silentMsMax = silentMsMax;
    this.#signals = signals;
    this.#destroy = destroy;
    for (const signal of signals) signal.addEventListener("abort", destroy, { once: true });
  }

  /** Throws the reason if this side ended the request. */
  throwIfEnded(): void {
    throwIfAnyAborted(this.#signals);
    if (this.#timeoutError) throw this.#timeoutError;
  }

  startTimer(): void {
    const limitMs = this.#silentMsMax;
    if (limitMs === undefined) return;
    this.#stop = this.#clock.setTimer(limitMs, () => {
      this.#timeoutError = silenceTimeoutError(Math.round(limitMs / 1000));
      this.#destroy();
    });
  }

  stopTimer(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  close(): void {
    this.stopTimer();
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#destroy);
  }
}

function throwIfAnyAborted(signals: readonly AbortSignal[]): void {
  for (const signal of signals) signal.throwIfAborted();
}

async function readText(answer: OpenResponse): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer.body()) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw malformedResponseError("the answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const lostCodes: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE"]);

function isConnectionLost(error: unknown): boolean {
  return lostCodes.has(getErrorCode(error) ?? "");
}

function toAssistantError(error: unknown, url: URL): AssistantError {
  if (error instanceof AssistantError) return error;
  if (isConnectionLost(error)) return connectionLostError(error);
  // Codes that begin with HPE_ are errors of the HTTP parser; all others are connection errors.
  return getErrorCode(error)?.startsWith("HPE_") === true
    ? malformedResponseError("the answer is not HTTP", error)
    : unreachableUpstreamError(url, error);
}
