import type { Socket } from "node:net";
import { type buildConnector, Client, type Dispatcher } from "undici";
import { type DialDependencies, type DialTarget, dial } from "./dial.ts";

/**
 * A kept connection is worth a handshake; most proxies keep theirs for a minute or more. One that they have
 * closed all the same costs one more attempt, see ProviderConnections.
 */
const KEPT_MS = 50_000;
/** Cookies, and what content delivery networks tell of themselves, take up 4 KiB. */
const HEAD_BYTES_MAX = 32_768;

/**
 * One connection with one request at a time, so that whose socket it is, and how it failed, is never in doubt;
 * undici's own pool keeps that to itself. Dialled by the first request.
 */
export class ProviderConnection {
  readonly #client: Client;
  readonly #ended = new AbortController();
  #socket: Socket | undefined;
  /** An answer has come to its end on this socket. */
  #isProven = false;
  #bytesBefore = 0;

  /** `onDisconnect` is called when its socket has closed, for whatever reason. */
  constructor(
    target: DialTarget,
    dialling: DialDependencies,
    onDisconnect: (connection: ProviderConnection) => void,
  ) {
    this.#client = new Client(getOrigin(target), {
      pipelining: 1,
      keepAliveTimeout: KEPT_MS,
      keepAliveMaxTimeout: KEPT_MS,
      // The exchange has its own, to the millisecond.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: HEAD_BYTES_MAX,
      connect: (_options, callback) => void this.#dial(target, dialling, callback),
    });
    this.#client.on("disconnect", () => {
      this.#socket = undefined;
      onDisconnect(this);
    });
  }

  send(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#bytesBefore = this.#socket?.bytesRead ?? 0;
    this.#client.dispatch(options, handler);
  }

  /** The request has its whole answer. */
  markProven(): void {
    this.#isProven = true;
  }

  /** A connection was there: what fails now is no longer connecting. */
  get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  /** Of the answer to the last request, its head included. */
  get answerBytes(): number {
    return (this.#socket?.bytesRead ?? 0) - this.#bytesBefore;
  }

  /** It had served another request before the last one, and then gave no byte of an answer. */
  get isLost(): boolean {
    return this.#isProven && this.answerBytes === 0;
  }

  async #dial(
    target: DialTarget,
    dialling: DialDependencies,
    callback: buildConnector.Callback,
  ): Promise<void> {
    try {
      this.#socket = await dial(target, dialling, this.#ended.signal);
      this.#isProven = false;
      this.#bytesBefore = 0;
      callback(null, this.#socket);
    } catch (error) {
      callback(error instanceof Error ? error : new Error("not connected"), null);
    }
  }

  /** At once, with whatever is under way on it. Resolves when its socket is closed. */
  async destroy(): Promise<void> {
    this.#ended.abort(new Error("the connection is not needed any more"));
    await this.#client.destroy();
  }
}

function getOrigin({ isEncrypted, host, port }: DialTarget): string {
  return `${isEncrypted ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
