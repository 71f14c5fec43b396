import { chmod, mkdir } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** One received JSON-RPC message. */
export interface RawMessage {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
}

export interface RawPeer {
  readonly socket: Socket;
  /** Sends a value as JSON with a line end. */
  readonly send: (value: unknown) => void;
  /** Sends a result as the answer to the request. */
  readonly answer: (request: RawMessage, result: unknown) => void;
}

/**
 * Returns the app's reaction to a message. If the script is undefined, the app reacts as a correct app of an older MCP
 * revision.
 */
export type RawScript = (message: RawMessage, peer: RawPeer) => "handled" | undefined;

/** An app without an SDK, which can misbehave in ways that no SDK permits. */
export class RawApp implements AsyncDisposable {
  readonly received: RawMessage[] = [];
  /** The number of accepted connections. */
  connections = 0;
  script: RawScript;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();

  static async start(
    socketsDir: string,
    appId: string,
    script: RawScript = () => undefined,
  ): Promise<RawApp> {
    await mkdir(socketsDir, { recursive: true, mode: 0o700 });
    await chmod(socketsDir, 0o700);
    const app = new RawApp(script);
    await new Promise<void>((resolve, reject) => {
      app.#listener.once("error", reject);
      app.#listener.listen(join(socketsDir, `${appId}.sock`), resolve);
    });
    return app;
  }

  private constructor(script: RawScript) {
    this.script = script;
    this.#listener = createServer((socket) => this.#serve(socket));
  }

  /** The methods of the received requests and notifications, in order. */
  get methods(): readonly (string | undefined)[] {
    return this.received.map(({ method }) => method);
  }

  /** The number of connections that the client has not closed, or whose data is not completely processed. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  disconnect(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
    await new Promise<void>((resolve) => {
      this.#listener.close(() => resolve());
    });
  }

  #serve(socket: Socket): void {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on("error", () => {}).once("close", () => this.#sockets.delete(socket));
    const send = (value: unknown) => void socket.write(`${JSON.stringify(value)}\n`);
    const peer: RawPeer = {
      socket,
      send,
      answer: ({ id }, result) => send({ jsonrpc: "2.0", id, result }),
    };
    const lines = createInterface({ input: socket });
    // This stream also emits the errors of the socket, which are expected and ignored.
    lines
      .on("error", () => {})
      .on("line", (line) => {
        const message: RawMessage = JSON.parse(line);
        this.received.push(message);
        if (this.script(message, peer) !== "handled") answerByDefault(message, peer);
      });
  }
}

export const echoTool = { name: "echo", inputSchema: { type: "object" } };

function answerByDefault(message: RawMessage, peer: RawPeer): void {
  switch (message.method) {
    case "initialize":
      peer.answer(message, {
        protocolVersion: "2025-06-18",
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: "raw", version: "1" },
      });
      return;
    case "tools/list":
      peer.answer(message, { tools: [echoTool] });
      return;
    case "tools/call":
      peer.answer(message, { content: [], structuredContent: message.params?.["arguments"] });
      return;
    default:
      if (message.method === undefined || message.id === undefined) return;
      peer.send({ jsonrpc: "2.0", id: message.id, error: { code: -32_601, message: "no" } });
  }
}
