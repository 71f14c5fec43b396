import { Agent, type IncomingMessage, request } from "node:http";
import { type Static, Type } from "typebox";
import { getAssistantControlSocket } from "../../../base/assistant-paths.ts";
import { BerthError, type ErrorCode, getErrorMessage } from "../../../base/errors.ts";
import { LazyValidator } from "../../../base/json-validator.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";

/**
 * The maximum size of a response, in bytes. The assistant sends several hundred bytes for each model, so that a longer
 * response is not from the assistant.
 */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;

const ErrorBody = Type.Object({
  error: Type.Object({ code: Type.String(), message: Type.String() }),
});
const errorBody = new LazyValidator<Static<typeof ErrorBody>>(ErrorBody);

/** Error codes of the assistant that keep their meaning; any other code becomes `engine_error`. */
const mappedErrorCodes: Readonly<Record<string, ErrorCode>> = {
  model_unusable: "model_unusable",
  insufficient_memory: "insufficient_memory",
  shutting_down: "assistant_unreachable",
};

export interface ControlRequest {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly body?: object;
  readonly limitMs: number;
  /** The error code if the time limit is exceeded; default: `engine_error`. */
  readonly timeoutCode?: ErrorCode;
}

/**
 * Calls over the assistant's control socket: HTTP on keep-alive connections. All calls are idempotent, and are repeated
 * once if a kept connection turns out to be closed.
 */
export class ControlTransport implements Disposable {
  readonly #socketPath: string;
  /**
   * The number of connections is not limited, because a request for the state must not wait for loads, which take
   * minutes.
   */
  readonly #agent = new Agent({ keepAlive: true });

  /** `dataDir` is the data directory of the assistant, which need not run yet. */
  constructor(options: { readonly dataDir: string }) {
    this.#socketPath = getAssistantControlSocket(options.dataDir);
  }

  /**
   * Returns the parsed body of a 2xx response. Rejects with `assistant_unreachable` (its cause has the system's code),
   * with the assistant's own error, with `engine_error` for an invalid response, or with the signal's reason.
   */
  async call(call: ControlRequest, signal: AbortSignal): Promise<unknown> {
    using limit = createTimeLimit(signal, call.limitMs);
    try {
      const { status, text } = await this.#send(call, limit.signal);
      const body: unknown = JSON.parse(text);
      if (status < 300) return body;
      throw toResponseError(body, status);
    } catch (error) {
      if (error instanceof BerthError) throw error;
      if (signal.aborted) throw signal.reason;
      if (limit.signal.aborted)
        throw new BerthError(
          call.timeoutCode ?? "engine_error",
          `the assistant did not answer within ${call.limitMs / 1000} s`,
          { hint: "the assistant may be busy: see its log, and berth doctor", cause: error },
        );
      if (error instanceof SyntaxError) throw invalidResponseError(error);
      throw new BerthError("assistant_unreachable", "the assistant does not answer", {
        hint: "the assistant is off, is starting, or has ended: see berth doctor",
        cause: error,
      });
    }
  }

  async #send(
    call: ControlRequest,
    signal: AbortSignal,
  ): Promise<{ status: number; text: string }> {
    const first = this.#sendOnce(call, signal);
    try {
      return await first.answer;
    } catch (error) {
      // On a reused connection, the likely cause is that the server had closed it while it was idle, for example for a
      // restart. The request is sent again on a new connection.
      if (!first.isReused() || signal.aborted) throw error;
      return this.#sendOnce(call, signal).answer;
    }
  }

  #sendOnce({ method, path, body }: ControlRequest, signal: AbortSignal) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const outgoing = request({
      socketPath: this.#socketPath,
      agent: this.#agent,
      method,
      path,
      signal,
      headers: {
        host: "berth",
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      },
    });
    const answer = new Promise<{ status: number; text: string }>((resolve, reject) => {
      outgoing.once("error", reject);
      outgoing.once("response", (response) => {
        readBodyText(response).then(
          (received) => resolve({ status: response.statusCode ?? 500, text: received }),
          reject,
        );
      });
    });
    outgoing.end(text);
    return { answer, isReused: () => outgoing.reusedSocket };
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

/**
 * Creates the error for a response that is not understood: the daemon has another version, or another program listens
 * on the socket.
 */
export function invalidResponseError(cause?: unknown): BerthError {
  return new BerthError("engine_error", "the assistant's answer is not understood", {
    hint: "an assistant of another version may be running: end it, and Berth starts its own",
    cause,
  });
}

async function readBodyText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes > ANSWER_BYTES_MAX) {
      response.destroy();
      throw invalidResponseError();
    }
    chunks.push(part);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function toResponseError(body: unknown, status: number): BerthError {
  if (!errorBody.isValid(body))
    return invalidResponseError(new Error(`status ${status}: ${getErrorMessage(body)}`));
  return new BerthError(mappedErrorCodes[body.error.code] ?? "engine_error", body.error.message);
}
