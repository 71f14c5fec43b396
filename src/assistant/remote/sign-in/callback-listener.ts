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

/** One browser has one or two connections; more is somebody who holds the door. */
const CONNECTIONS_MAX = 32;
/** For a request's head: a browser on the same machine needs none. */
const HEAD_MS = 10_000;

/** Whose callback it is. */
export interface CallbackReceiver {
  isCallback(pathname: string): boolean;
  /** A callback that came as it should; how the sign-in ended by it. Undefined: it was used before. */
  receive(callback: URL): Promise<LoginDetail | undefined>;
  /** A callback by another Host than was given out. */
  receiveByOtherHost(): void;
}

/**
 * Where the browser comes back to: one port of 127.0.0.1, for one sign-in. Only a GET to the callback's path, by
 * exactly the address that was given out, is anything.
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

  /** Resolves when it listens. Throws AssistantError `internal` where the machine has no port left. */
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
      throw new AssistantError("internal", "no port of this machine is free to sign in by", {
        cause: error,
      });
    });
    const listener = new CallbackListener(server, port);
    // Any later error is of one connection, whose browser sees it.
    server.on("error", () => {});
    server.on("request", (request, response) => {
      const answered = listener.#answer(receiver, request, response).finally(() => {
        listener.#answering.delete(answered);
      });
      listener.#answering.add(answered);
    });
    return listener;
  }

  /** Takes nobody any more, and ends what is not being answered. Answers wait for the receiver. */
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
