import { mkdtemp, rename, rm } from "node:fs/promises";
import { createServer, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Server, type Transport } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { vi } from "vitest";
import { McpApps } from "../../src/assistant/agent/mcp/mcp-apps.ts";
import type { McpLimits } from "../../src/assistant/agent/mcp/mcp-limits.ts";
import type { JsonObject } from "../../src/assistant/agent/port.ts";
import type { AppAddress } from "../../src/assistant/agent/tool-apps.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import type {
  ScriptedAnswer,
  ScriptedApp,
  ScriptedTool,
  ToolAppsHarness,
} from "../contract/assistant/tool-apps-contract.ts";

/**
 * The revision of MCP that the apps' servers implement: `modern` has the request `server/discover` of the revision of
 * 2026, and `legacy` has only the `initialize` handshake of earlier SDKs.
 */
export type Era = "modern" | "legacy";

/** The time limit of a call. Two tests wait for it, and all other calls must end earlier, even on a busy machine. */
const CALL_LIMIT_MS = 1_000;
/**
 * The maximum size of a message. It is small, so that even a busy machine reads a longer message within the time limit
 * of a call.
 */
const FRAME_BYTES_MAX = 64 * 1024;

/** Creates apps on real sockets, with servers of the official SDK. */
export async function mcpToolAppsHarness(
  era: Era,
  limits: Partial<McpLimits> = {},
): Promise<ToolAppsHarness> {
  const socketsDir = join(await mkdtemp(join(tmpdir(), "berth-mcp-")), "apps");
  const startable = new Set<string>();
  const apps = new McpApps({
    socketsDir,
    activator: {
      activate: () => Promise.reject(new Error("nothing is started here")),
      canStart: async (appId) => startable.has(appId),
    },
    clock: systemClock,
    logger: silentLogger,
    limits: { callTimeoutMs: CALL_LIMIT_MS, frameBytesMax: FRAME_BYTES_MAX, ...limits },
  });
  const running = new Map<string, SdkApp>();
  // Asking for a tool makes the adapter create its socket folder, in which the apps then listen.
  await apps
    .getDefinition({ appId: "org.example.first", isActivatable: false }, "x", neverAborted())
    .catch(() => {});
  return {
    apps,
    callLimitMs: CALL_LIMIT_MS,
    startable,
    async start(appId, tools) {
      await running.get(appId)?.die();
      const app = new SdkApp({ appId, era, tools, apps });
      await app.listen(join(socketsDir, `${appId}.sock`));
      running.set(appId, app);
      return app;
    },
    async crash({ address: { appId } }) {
      const path = join(socketsDir, `${appId}.sock`);
      // A listener removes its socket file when it is closed, but only if the file still has the name under which it
      // was created.
      await rename(path, `${path}.kept`);
      await running.get(appId)?.die();
      await rename(`${path}.kept`, path);
    },
    async [Symbol.asyncDispose]() {
      await apps[Symbol.asyncDispose]();
      for (const app of running.values()) await app.die();
      await rm(join(socketsDir, ".."), { recursive: true, force: true });
    },
  };
}

class SdkApp implements ScriptedApp {
  readonly address: AppAddress;
  readonly received: { readonly name: string; readonly args: JsonObject }[] = [];
  readonly #era: Era;
  readonly #apps: McpApps;
  readonly #listener: NetServer;
  readonly #sockets = new Set<Socket>();
  readonly #servers = new Set<Server>();
  #tools: readonly ScriptedTool[];

  constructor(options: {
    readonly appId: string;
    readonly era: Era;
    readonly tools: readonly ScriptedTool[];
    readonly apps: McpApps;
  }) {
    this.address = { appId: options.appId, isActivatable: false };
    this.#era = options.era;
    this.#tools = options.tools;
    this.#apps = options.apps;
    this.#listener = createServer((socket) => this.#serve(socket));
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#listener.listen(path, resolve);
    });
  }

  async setTools(tools: readonly ScriptedTool[]): Promise<void> {
    const names = new Set([...this.#tools, ...tools].map(({ name }) => name));
    this.#tools = tools;
    for (const server of this.#servers) await server.sendToolListChanged();
    for (const name of names) {
      const expected = tools.find((tool) => tool.name === name);
      await vi.waitUntil(async () => {
        const live = await this.#apps.getDefinition(this.address, name, neverAborted());
        return isDeepStrictEqual(live?.inputSchema, expected?.inputSchema);
      }, 5_000);
    }
  }

  async die(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#listener.listening) return;
    await new Promise<void>((resolve) => {
      this.#listener.close(() => resolve());
    });
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {}).once("close", () => this.#sockets.delete(socket));
    const transport: Transport = new StdioServerTransport(socket, socket);
    if (this.#era === "modern") {
      serveStdio(() => this.#server(socket), { transport, legacy: "reject" });
      return;
    }
    this.#server(socket)
      .connect(transport)
      .catch(() => socket.destroy());
  }

  #server(socket: Socket): Server {
    const server = new Server(
      { name: "scripted", version: "1" },
      { capabilities: { tools: { listChanged: true } } },
    );
    this.#servers.add(server);
    socket.once("close", () => this.#servers.delete(server));
    server.setRequestHandler("tools/list", () => ({
      tools: this.#tools.map(({ name, title, description, inputSchema }) => ({
        name,
        ...(title !== undefined && { title }),
        ...(description !== undefined && { description }),
        inputSchema: { type: "object" as const, ...inputSchema },
      })),
    }));
    server.setRequestHandler("tools/call", async (request, { mcpReq }) => {
      const { name, arguments: args } = request.params;
      this.received.push({ name, args: { ...args } });
      const found = this.#tools.find((tool) => tool.name === name);
      if (!found) throw new Error(`there is no tool ${name}`);
      return await this.#answer(found.answer, socket, mcpReq.id);
    });
    return server;
  }

  async #answer(answer: ScriptedAnswer, socket: Socket, id: string | number) {
    const raw = (result: unknown) => {
      socket.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
      return never();
    };
    switch (answer.kind) {
      case "result":
        return {
          content: JSON.parse(JSON.stringify(answer.content ?? [])),
          ...(answer.structured && { structuredContent: { ...answer.structured } }),
          ...(answer.isError && { isError: true }),
        };
      case "error":
        throw new Error(answer.message);
      case "late":
        await answer.release;
        return { content: [], structuredContent: { ...answer.structured } };
      case "hang":
        return never();
      case "die":
        await this.die();
        return never();
      case "nonsense":
        return raw({ resultType: "complete", content: "no blocks" });
      default:
        return raw({ content: [{ type: "text", text: "x".repeat(2 * FRAME_BYTES_MAX) }] });
    }
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

function neverAborted(): AbortSignal {
  return new AbortController().signal;
}
