import { once, setMaxListeners } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../errors.ts";
import { cutOff, errorOfAnswer, nobodyThere, notUnderstood, silentFor } from "./wire-error.ts";

/** An embedding of 2,048 texts is far below; nothing else comes near it. */
const ANSWER_BYTES_MAX = 256 * 2 ** 20;
const SOCKETS_IDLE_MAX = 16;

export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  /** For how long the other side may be silent; undefined: for as long as the caller waits. */
  readonly silentMsMax: number | undefined;
}

/** Requests to one address, on connections that are kept. */
export class HttpCalls implements Disposable {
  readonly #url: URL;
  readonly #clock: Clock;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: SOCKETS_IDLE_MAX });
  readonly #closing = new AbortController();

  constructor(options: { readonly url: URL; readonly clock: Clock }) {
    this.#url = options.url;
    this.#clock = options.clock;
    // Every call under way listens: many of them are no leak.
    setMaxListeners(0, this.#closing.signal);
  }

  /**
   * Resolves to an answer of 200 whose body is still to be read. Rejects with the AssistantError that
   * another answer tells; `no_model` where nobody listens; the signal's reason.
   */
  async open(call: Call, signal: AbortSignal): Promise<OpenAnswer> {
    const answer = await this.#sent(call, signal);
    const { response } = answer;
    if (response.statusCode === 200) return answer;
    const text = await textOf(answer);
    throw errorOfAnswer(response.statusCode ?? 0, asJson(text), response.headers["retry-after"]);
  }

  /** The whole answer, as JSON. Rejects as `open`, and with `engine_failed` for one that is cut or no JSON. */
  async json(call: Call, signal: AbortSignal): Promise<unknown> {
    const value = asJson(await textOf(await this.open(call, signal)));
    if (value === undefined) throw notUnderstood("an answer that is no JSON");
    return value;
  }

  /** Calls under way end with `shutting_down`. */
  [Symbol.dispose](): void {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    this.#agent.destroy();
  }

  async #sent(call: Call, signal: AbortSignal): Promise<OpenAnswer> {
    for (let tried = 0; ; tried++) {
      const outcome = await this.#send(call, signal);
      if (outcome.kind === "answer") return outcome.answer;
      // A kept connection that the other side was just closing: nothing of the request was read there.
      if (tried === 0 && outcome.wasKept && isLost(outcome.error)) continue;
      throw asAssistantError(outcome.error, this.#url);
    }
  }

  async #send(call: Call, signal: AbortSignal): Promise<Outcome> {
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
    const watch = new Watch(this.#clock, call.silentMsMax, signals, () => request.destroy());
    // Also once the answer has come: its own listeners tell then.
    request.on("error", () => {});
    try {
      request.end(body);
      watch.begin();
      const [response]: IncomingMessage[] = await once(request, "response");
      if (!response) throw new Error("an answer without an answer");
      watch.end();
      return { kind: "answer", answer: new OpenAnswer(response, watch) };
    } catch (error) {
      watch.close();
      watch.throwIfOver();
      return { kind: "failed", error, wasKept: request.reusedSocket };
    }
  }
}

type Outcome =
  | { readonly kind: "answer"; readonly answer: OpenAnswer }
  | { readonly kind: "failed"; readonly error: unknown; readonly wasKept: boolean };

/**
 * An answer whose head has come. Whoever does not pull its body stops reading from the connection; whoever
 * leaves early ends it.
 */
export class OpenAnswer {
  readonly response: IncomingMessage;
  readonly #watch: Watch;

  constructor(response: IncomingMessage, watch: Watch) {
    this.response = response;
    this.#watch = watch;
  }

  /** Rejects with `engine_failed` where it is cut off, `timeout` where nothing comes, the signal's reason. */
  async *body(): AsyncGenerator<Buffer, void, void> {
    const watch = this.#watch;
    try {
      watch.begin();
      // Leaving the loop early ends the connection.
      for await (const chunk of this.response) {
        watch.end();
        yield chunk;
        watch.begin();
      }
    } catch (error) {
      watch.throwIfOver();
      throw cutOff(error);
    } finally {
      watch.close();
    }
  }
}

/** Ends a request when its caller has gone, and when nothing comes while somebody waits for it. */
class Watch {
  readonly #signals: readonly AbortSignal[];
  #ranOut: AssistantError | undefined;
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

  /** Throws why the request was ended from this side, where it was. */
  throwIfOver(): void {
    throwIfAnyAborted(this.#signals);
    if (this.#ranOut) throw this.#ranOut;
  }

  begin(): void {
    const limitMs = this.#silentMsMax;
    if (limitMs === undefined) return;
    this.#stop = this.#clock.setTimer(limitMs, () => {
      this.#ranOut = silentFor(Math.round(limitMs / 1000));
      this.#destroy();
    });
  }

  end(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  close(): void {
    this.end();
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#destroy);
  }
}

function throwIfAnyAborted(signals: readonly AbortSignal[]): void {
  for (const signal of signals) signal.throwIfAborted();
}

async function textOf(answer: OpenAnswer): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer.body()) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw notUnderstood("an answer that is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const lostCodes: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE"]);

function isLost(error: unknown): boolean {
  return lostCodes.has(systemCode(error));
}

function asAssistantError(error: unknown, url: URL): AssistantError {
  if (error instanceof AssistantError) return error;
  if (isLost(error)) return cutOff(error);
  // Everything that the HTTP parser throws; the rest is what connecting fails with.
  return systemCode(error).startsWith("HPE_")
    ? notUnderstood("no HTTP", error)
    : nobodyThere(url, error);
}

function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : "";
}
