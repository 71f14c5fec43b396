import type { Server as NetServer, Socket } from "node:net";
import { Server } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { BERTH_APPS_ID, berthToolNames, berthTools } from "../base/berth-tool-manifest.ts";
import { readPackageVersion } from "../base/package-version.ts";
import type { ToolDispatcher } from "./tool-dispatcher.ts";
import { listenOnSocket } from "./tool-socket.ts";

/** Longest message from a client, far above the length of any valid message. */
const FRAME_BYTES_MAX = 1024 * 1024;
const CONNECTIONS_MAX = 16;

/** Serves Berth's tools over MCP on a Unix socket, for all revisions of MCP that the SDK supports. */
export class ToolServer implements AsyncDisposable {
  readonly #dispatcher: ToolDispatcher;
  readonly #sockets = new Set<Socket>();
  #listener: NetServer | undefined;

  constructor(options: { readonly calls: ToolDispatcher }) {
    this.#dispatcher = options.calls;
  }

  /** Listens on the socket. Throws like `listenOnSocket`. */
  async listen(path: string): Promise<void> {
    this.#listener = await listenOnSocket(path, (socket) => this.#serve(socket));
    this.#listener.maxConnections = CONNECTIONS_MAX;
  }

  /**
   * Closes all connections and aborts their calls. The changes that an aborted call has already made through Berth's
   * API remain.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    for (const socket of this.#sockets) socket.destroy();
    if (listener) await new Promise<void>((resolve) => listener.close(() => resolve()));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {}).once("close", () => this.#sockets.delete(socket));
    const transport = new StdioServerTransport(socket, socket, { maxBufferSize: FRAME_BYTES_MAX });
    const handle = serveStdio(() => this.#createSession(), {
      transport,
      // After any protocol error the connection cannot be used, so it is closed.
      onerror: () => socket.destroy(),
    });
    socket.once("close", () => void handle.close().catch(() => {}));
  }

  #createSession(): Server {
    const server = new Server(
      { name: BERTH_APPS_ID, version: readPackageVersion() },
      { capabilities: { tools: {} } },
    );
    server.setRequestHandler("tools/list", () => ({
      tools: berthToolNames.map((name) => {
        const { title, description, input_schema, tier } = berthTools[name];
        const schema: Record<string, unknown> = { ...input_schema };
        return {
          name,
          title,
          description,
          inputSchema: { ...schema, type: "object" as const },
          annotations: { readOnlyHint: tier === "read", destructiveHint: tier === "destructive" },
        };
      }),
    }));
    server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
      const result = await this.#dispatcher.call(
        params.name,
        params.arguments ?? {},
        mcpReq.signal,
      );
      return { ...result, content: [...result.content] };
    });
    return server;
  }
}
