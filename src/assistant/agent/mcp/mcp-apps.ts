import { setMaxListeners } from "node:events";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { readPackageVersion } from "../../../base/package-version.ts";
import type { JsonObject } from "../port.ts";
import {
  type AppAddress,
  type LiveTool,
  ToolAppError,
  type ToolApps,
  type ToolResult,
} from "../tool-apps.ts";
import type { Activator } from "./activation/port.ts";
import type { AppConnection } from "./app-connection.ts";
import { AppConnector } from "./app-connector.ts";
import { defaultMcpLimits, type McpLimits } from "./mcp-limits.ts";
import { SocketFolder } from "./socket-folder.ts";

interface McpAppsOptions {
  /** Path of the sockets' folder, `$XDG_RUNTIME_DIR/assistant/apps`. The folder is created on first use. */
  readonly socketsDir: string;
  readonly activator: Activator;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: Partial<McpLimits>;
}

/**
 * Apps that speak MCP on their own Unix sockets, `<app id>.sock` in one folder of the user. Each app has one
 * connection, opened on demand and closed when idle. Apps share nothing, so an app that hangs or floods delays only
 * its own callers.
 */
export class McpApps implements ToolApps, AsyncDisposable {
  readonly #folder: SocketFolder;
  readonly #options: McpAppsOptions;
  readonly #limits: McpLimits;
  readonly #version = readPackageVersion();
  readonly #connectors = new Map<string, AppConnector>();
  readonly #disposal = new AbortController();

  constructor(options: McpAppsOptions) {
    this.#options = options;
    this.#folder = new SocketFolder(options.socketsDir);
    this.#limits = { ...defaultMcpLimits, ...options.limits };
    // Each connecting app adds a listener to the signal, so the default warning at ten listeners does not apply.
    setMaxListeners(0, this.#disposal.signal);
  }

  async getDefinition(
    app: AppAddress,
    name: string,
    signal: AbortSignal,
  ): Promise<LiveTool | undefined> {
    const tools = await this.#withConnection(app, signal, (connection) =>
      connection.getTools(signal),
    );
    return tools.get(name);
  }

  async call(
    app: AppAddress,
    name: string,
    args: JsonObject,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const result = await this.#withConnection(app, signal, (connection) =>
      connection.call(name, args, signal),
    );
    // Only a completed call resets the number of consecutive failures, because an app that crashes at each call can
    // still list its tools.
    this.#getConnector(app.appId).recordSuccess();
    return result;
  }

  isConnected(appId: string): boolean {
    return this.#connectors.get(appId)?.isConnected ?? false;
  }

  async isReachable({ appId, isActivatable }: AppAddress): Promise<boolean> {
    if (this.isConnected(appId)) return true;
    const { signal } = this.#disposal;
    // A crash leaves the socket behind, so only a connection shows that the app listens. Nothing is sent over it.
    const attempt = this.#folder.connect(appId, signal);
    const socket = (await attempt.catch(() => undefined))?.socket;
    socket?.destroy();
    if (socket !== undefined || !isActivatable) return socket !== undefined;
    // If it stays unknown whether the app can be started, the call itself reports the reason.
    return this.#options.activator.canStart(appId, signal).catch(() => true);
  }

  /** Closes all connections; running calls reject with `transport_closed`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal.abort(new ToolAppError("transport_closed", "the assistant is shutting down"));
    await Promise.all([...this.#connectors.values()].map((connector) => connector.close()));
  }

  async #withConnection<T>(
    app: AppAddress,
    signal: AbortSignal,
    use: (connection: AppConnection) => Promise<T>,
  ): Promise<T> {
    this.#disposal.signal.throwIfAborted();
    const connector = this.#getConnector(app.appId);
    const connection = await connector.getConnection(app.isActivatable, signal);
    try {
      return await use(connection);
    } catch (error) {
      // A tool that fails or takes long does not count as a failure of the app.
      if (connection.isClosed) connector.recordFailure(error, connection);
      throw error;
    }
  }

  #getConnector(appId: string): AppConnector {
    const known = this.#connectors.get(appId);
    if (known) return known;
    const connector = new AppConnector({
      appId,
      folder: this.#folder,
      activator: this.#options.activator,
      version: this.#version,
      clock: this.#options.clock,
      logger: this.#options.logger,
      limits: this.#limits,
      signal: this.#disposal.signal,
    });
    this.#connectors.set(appId, connector);
    return connector;
  }
}
