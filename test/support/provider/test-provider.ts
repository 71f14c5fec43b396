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
  /** https, by an authority that only who is given `ca` trusts. */
  readonly tls?: boolean;
  /** In place of the certificate that `tls` makes, which is for 127.0.0.1, ::1, localhost and `host`. */
  readonly certificate?: KeyPair;
  /** What the base URL names it; it listens on 127.0.0.1, whatever that is. */
  readonly host?: string;
  readonly port?: number;
  /** Where this is given, whoever does not bring it is answered 401. */
  readonly key?: string;
  readonly models?: readonly string[];
  /** What is done with a request; undefined: as a well-behaved provider does. */
  readonly script?: (request: ProviderRequest) => ScriptedResponse | undefined;
}

export interface ProviderRequest {
  /** From 1, in the order in which they came. */
  readonly number: number;
  /** Of the connection on which it came, from 1. */
  readonly connection: number;
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As it came; `body` is what that is as JSON, undefined where it is none. */
  readonly text: string;
  readonly body: unknown;
  /** answered: to its end. left: the other side went before that. */
  state: "open" | "answered" | "left";
}

/**
 * A provider of the chat-completions convention: models, chat (streamed and whole), embeddings. It repeats
 * what the last message says, unless a script or `next` says otherwise, and records all that it is asked.
 */
export class TestProvider implements AsyncDisposable {
  readonly requests: ProviderRequest[] = [];
  /** PEM of the authority behind its certificate; empty without TLS. */
  readonly ca: string;
  /** The list that it gives. */
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
    // Kept connections stay until the test or the other side ends them.
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

  /** As a person writes it down for AddProvider. */
  get baseUrl(): string {
    return `${this.origin}/v1`;
  }

  /** Connections that are open now, kept ones too. */
  get connections(): number {
    return this.#sockets.size;
  }

  get connectionsTotal(): number {
    return this.#connectionsEver;
  }

  /** What is done with the requests that come next, before the script is asked. */
  next(...turns: readonly ScriptedResponse[]): void {
    this.#next.push(...turns);
  }

  /** Ends every connection, kept ones too, as a provider that starts anew does. */
  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves once `isSo`; looked at after each request, answer and connection. */
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
