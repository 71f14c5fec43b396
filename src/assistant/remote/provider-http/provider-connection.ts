import type { Socket } from "node:net";
import { type buildConnector, Client, type Dispatcher } from "undici";
import { type DialDependencies, type DialTarget, dial } from "./dial.ts";

/**
 * The time that an idle connection is kept. Reusing it saves a handshake; most proxies keep an idle connection for a
 * minute or more. If the server has closed the connection meanwhile, ProviderHttpClient makes one more attempt.
 */
const KEPT_MS = 50_000;
/** The largest size of an answer's head. Cookies and the headers of content delivery networks take up about 4 KiB. */
const HEAD_BYTES_MAX = 32_768;

/**
 * One connection with one request at a time, so that it is always clear to which request a socket and its failure
 * belong; undici's pool does not expose that. The connection is established by its first request.
 */
export class ProviderConnection {
  readonly #client: Client;
  readonly #ended = new AbortController();
  #socket: Socket | undefined;
  /** True once an answer has ended on this socket. */
  #isProven = false;
  #bytesBefore = 0;

  /** `onDisconnect` is called when the socket has closed, for any reason. */
  constructor(
    target: DialTarget,
    dialling: DialDependencies,
    onDisconnect: (connection: ProviderConnection) => void,
  ) {
    this.#client = new Client(getOrigin(target), {
      pipelining: 1,
      keepAliveTimeout: KEPT_MS,
      keepAliveMaxTimeout: KEPT_MS,
      // undici's timeouts are off, because ProviderExchange has more precise timers.
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

  /**
   * Records that this connection has delivered a whole answer. `isLost` needs this to recognise a reused connection
   * that the provider has closed.
   */
  markProven(): void {
    this.#isProven = true;
  }

  /** True if the connection was established, so that a later failure is not reported as a failure to connect. */
  get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  /** The number of received bytes of the answer to the last request, including its head. */
  get answerBytes(): number {
    return (this.#socket?.bytesRead ?? 0) - this.#bytesBefore;
  }

  /**
   * True if the provider may have closed this reused connection before the current request arrived: the connection has
   * served an earlier request, and no byte of the current answer has arrived.
   */
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

  /** Closes the connection at once, even during a request. Resolves when the socket is closed. */
  async destroy(): Promise<void> {
    this.#ended.abort(new Error("the connection is not needed any more"));
    await this.#client.destroy();
  }
}

function getOrigin({ isEncrypted, host, port }: DialTarget): string {
  return `${isEncrypted ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
