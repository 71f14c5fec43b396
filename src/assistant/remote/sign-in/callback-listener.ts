import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { AssistantError } from "../../assistant-error.ts";
import type { LoginDetail } from "../port.ts";
import {
  type CallbackPage,
  endPages,
  notFoundPage,
  pageHeaders,
  renderPage,
  usedCallbackPage,
  wrongHostPage,
  wrongMethodPage,
} from "./callback-page.ts";

/**
 * The largest number of connections. A browser opens one or two; more connections come from a program that blocks the
 * port.
 */
const CONNECTIONS_MAX = 32;
/** The time limit for receiving a request's head. A browser on this machine needs almost no time. */
const HEAD_MS = 10_000;

/** Handles the callbacks of one sign-in. */
export interface CallbackReceiver {
  isCallback(pathname: string): boolean;
  /**
   * Handles a callback with the right path and host. Resolves to the result of the sign-in, or to undefined if a
   * callback was received before.
   */
  receive(callback: URL): Promise<LoginDetail | undefined>;
  /** Called for a callback whose Host header differs from the host of the callback URL. */
  receiveByOtherHost(): void;
}

/**
 * The HTTP server that receives the browser's callback of one sign-in, on its own port of 127.0.0.1. It accepts only a
 * GET to the callback's path at exactly the callback URL's address.
 */
export class CallbackListener implements AsyncDisposable {
  readonly origin: string;
  readonly #host: string;
  readonly #server: Server;
  readonly #answering = new Set<Promise<void>>();
  #closed: Promise<void> | undefined;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#host = `127.0.0.1:${port}`;
    this.origin = `http://${this.#host}`;
  }

  /** Resolves when the server listens. Throws AssistantError `internal` if no port is free. */
  static async open(receiver: CallbackReceiver): Promise<CallbackListener> {
    const server = createServer({
      headersTimeout: HEAD_MS,
      requestTimeout: HEAD_MS,
      connectionsCheckingInterval: HEAD_MS / 2,
    });
    server.maxConnections = CONNECTIONS_MAX;
    const port = await new Promise<number>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: "127.0.0.1", port: 0, exclusive: true }, () => {
        const address = server.address();
        resolve(typeof address === "object" && address ? address.port : 0);
      });
    }).catch((error: unknown) => {
      throw new AssistantError("internal", "no port of this machine is free for the sign-in", {
        cause: error,
      });
    });
    const listener = new CallbackListener(server, port);
    // Errors after this point concern a single connection, and the browser at its other end reports them.
    server.on("error", () => {});
    server.on("request", (request, response) => {
      const answered = listener.#answer(receiver, request, response).finally(() => {
        listener.#answering.delete(answered);
      });
      listener.#answering.add(answered);
    });
    return listener;
  }

  /** Stops accepting connections and closes idle ones. Waits until answers in progress have been sent. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    await Promise.all(this.#answering);
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(
    receiver: CallbackReceiver,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const gone = new Promise<void>((resolve) => response.once("close", resolve));
    const page = await this.#pageFor(receiver, request);
    request.resume();
    response.writeHead(page.status, {
      ...pageHeaders,
      ...(page === wrongMethodPage ? { allow: "GET" } : {}),
    });
    response.end(renderPage(page));
    await gone;
  }

  async #pageFor(receiver: CallbackReceiver, request: IncomingMessage): Promise<CallbackPage> {
    const path = request.url ?? "";
    const url = path.startsWith("/") ? (URL.parse(this.origin + path) ?? undefined) : undefined;
    const isCallback = url !== undefined && receiver.isCallback(url.pathname);
    const hosts = request.headersDistinct["host"] ?? [];
    if (hosts.length !== 1 || hosts[0] !== this.#host) {
      if (isCallback) receiver.receiveByOtherHost();
      return wrongHostPage;
    }
    if (!isCallback) return notFoundPage;
    if (request.method !== "GET") return wrongMethodPage;
    const end = await receiver.receive(url);
    return end === undefined ? usedCallbackPage : endPages[end];
  }
}
