import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type Server,
  type ServerResponse,
} from "node:http";

export interface ReceivedWebhook {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The response to a request. `hang` sends no response, and `cut` closes the connection. */
export type ReceiverResponse =
  | "hang"
  | "cut"
  | number
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
      /** If true, the response body begins and never ends. */
      readonly endless?: boolean;
    };

/** A real HTTP server that records webhooks and responds as the test defines. */
export class WebhookReceiver implements AsyncDisposable {
  readonly received: ReceivedWebhook[] = [];
  /** The responses to the next requests, in order. `otherwise` is the response to all later requests. */
  readonly script: ReceiverResponse[] = [];
  otherwise: ReceiverResponse = 204;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { method = "", url = "", headers } = request;
        const body = Buffer.concat(chunks).toString("utf8");
        this.received.push({ method, path: url, headers, body });
        respond(response, this.script.shift() ?? this.otherwise);
      });
    });
  }

  static async start(port = 0): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.#server.listen(port, "127.0.0.1");
    await once(receiver.#server, "listening");
    return receiver;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("it does not listen");
    return address.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  /** Lists the parsed bodies of all requests that have arrived so far. */
  get payloads(): Record<string, unknown>[] {
    return this.received.map(({ body }): Record<string, unknown> => JSON.parse(body));
  }

  get events(): string[] {
    return this.payloads.map((payload) => String(payload["event"]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }
}

function respond(response: ServerResponse, how: ReceiverResponse): void {
  if (how === "hang") return;
  if (how === "cut") {
    response.socket?.destroy();
    return;
  }
  const {
    status,
    headers = {},
    body = "",
    endless = false,
  } = typeof how === "number" ? { status: how } : how;
  response.writeHead(status, headers);
  if (endless) response.write(body);
  else response.end(body);
}
