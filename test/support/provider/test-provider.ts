import { EventEmitter, once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import { type KeyPair, TestAuthority } from "./certificates.ts";
import { createDefaultResponse } from "./default-response.ts";
import { refusal, type ScriptedResponse } from "./scripted-response.ts";
import { sendResponse } from "./send-response.ts";

export interface TestProviderOptions {
  /** If true, the provider uses https, with a certificate of an authority that only clients with `ca` trust. */
  readonly tls?: boolean;
  /** Replaces the certificate that `tls` creates for 127.0.0.1, ::1, localhost and `host`. */
  readonly certificate?: KeyPair;
  /** The host name in the base URL. The server listens on 127.0.0.1 in any case. */
  readonly host?: string;
  readonly port?: number;
  /** If set, a request without this key is answered with 401. */
  readonly key?: string;
  readonly models?: readonly string[];
  /** Returns the response to a request. If the script is undefined, the well-behaved provider's response is sent. */
  readonly script?: (request: ProviderRequest) => ScriptedResponse | undefined;
}

export interface ProviderRequest {
  /** The number of the request, counted from 1 in the order of arrival. */
  readonly number: number;
  /** The number of the connection on which the request arrived, counted from 1. */
  readonly connection: number;
  readonly method: string;
  /** The path of the request, with its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The body as text; `body` is the parsed JSON, or undefined if the text is not JSON. */
  readonly text: string;
  readonly body: unknown;
  /** The state of the request: `answered` if the answer is complete, and `left` if the client disconnected first. */
  state: "open" | "answered" | "left";
}

/**
 * A provider with the chat-completions API: models, chat (streamed or not), and embeddings. It echoes the last message
 * unless `script` or `next` define another response, and records all requests.
 */
export class TestProvider implements AsyncDisposable {
  readonly requests: ProviderRequest[] = [];
  /** The certificate of the authority as PEM; empty without TLS. */
  readonly ca: string;
  /** The models that the provider lists. */
  models: readonly string[];
  readonly #options: TestProviderOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #connections = new WeakMap<Socket, number>();
  readonly #next: ScriptedResponse[] = [];
  readonly #changes = new EventEmitter();
  #connectionsEver = 0;

  static async start(options: TestProviderOptions = {}): Promise<TestProvider> {
    let { certificate } = options;
    let ca = "";
    if (options.tls === true && certificate === undefined) {
      const authority = await TestAuthority.create();
      ca = authority.ca;
      const host = options.host === undefined ? [] : [options.host];
      certificate = await authority.issue({ names: [...host, "localhost", "127.0.0.1", "::1"] });
    }
    const provider = new TestProvider(options, certificate, ca);
    provider.#server.listen(options.port ?? 0, "127.0.0.1");
    await once(provider.#server, "listening");
    return provider;
  }

  private constructor(
    options: TestProviderOptions,
    certificate: KeyPair | undefined,
    authority: string,
  ) {
    this.#options = options;
    this.ca = authority;
    this.models = options.models ?? ["test-model", "test-embedder"];
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      this.#answer(request, response).catch(() => response.destroy());
    };
    this.#server = certificate ? createTlsServer(certificate, listener) : createServer(listener);
    // Idle connections stay open until the test or the client closes them.
    this.#server.keepAliveTimeout = 0;
    this.#server.setMaxListeners(0);
    this.#changes.setMaxListeners(0);
    this.#server.on(certificate ? "secureConnection" : "connection", (socket: Socket) => {
      this.#connections.set(socket, ++this.#connectionsEver);
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#sockets.delete(socket);
        this.#changes.emit("change");
      });
      this.#changes.emit("change");
    });
    this.#server.on("tlsClientError", () => {});
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("it does not listen");
    return address.port;
  }

  get origin(): string {
    const scheme = "setSecureContext" in this.#server ? "https" : "http";
    return `${scheme}://${this.#options.host ?? "127.0.0.1"}:${this.port}`;
  }

  /** The base URL as a user enters it for AddProvider. */
  get baseUrl(): string {
    return `${this.origin}/v1`;
  }

  /** The number of open connections, including idle ones. */
  get connections(): number {
    return this.#sockets.size;
  }

  get connectionsTotal(): number {
    return this.#connectionsEver;
  }

  /** Sets the responses to the next requests. They take precedence over those of the script. */
  next(...turns: readonly ScriptedResponse[]): void {
    this.#next.push(...turns);
  }

  /** Closes every connection, including idle ones, as a provider that restarts does. */
  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when `isSo` returns true. `isSo` is called after each request, answer and connection. */
  async until(isSo: (provider: TestProvider) => boolean): Promise<void> {
    while (!isSo(this)) await once(this.#changes, "change");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.dropConnections();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await textOf(incoming);
    const request: ProviderRequest = {
      number: this.requests.length + 1,
      connection: this.#connections.get(incoming.socket) ?? 0,
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      text,
      body: asJson(text),
      state: "open",
    };
    this.requests.push(request);
    response.once("close", () => {
      request.state = response.writableFinished ? "answered" : "left";
      this.#changes.emit("change");
    });
    this.#changes.emit("change");
    const turn = this.#responseFor(request) ?? createDefaultResponse(request, this.models);
    await sendResponse(turn, request, response);
  }

  #responseFor(request: ProviderRequest): ScriptedResponse | undefined {
    const { key, script } = this.#options;
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`)
      return refusal(401, "Incorrect API key provided", {}, "invalid_api_key");
    return this.#next.shift() ?? script?.(request);
  }
}

async function textOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
