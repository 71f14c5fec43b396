import { setMaxListeners } from "node:events";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { packageVersion } from "../../../base/package-version.ts";
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
import { AppLink } from "./app-link.ts";
import { defaultLimits, type McpLimits } from "./limits.ts";
import { SocketFolder } from "./socket-folder.ts";

/**
 * Apps that speak MCP on a Unix socket of their own, `<app id>.sock` in one folder of the user. One
 * connection for each app, opened on demand and closed when it has been idle. Apps share nothing, so that
 * one that hangs or floods is waited for by its own callers only.
 */
export class McpApps implements ToolApps, AsyncDisposable {
  readonly #folder: SocketFolder;
  readonly #activator: Activator;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #limits: McpLimits;
  readonly #version = packageVersion();
  readonly #links = new Map<string, AppLink>();
  readonly #over = new AbortController();

  constructor(options: {
    /** `$XDG_RUNTIME_DIR/assistant/apps`; made when it is first needed. */
    readonly socketsDir: string;
    readonly activator: Activator;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly limits?: Partial<McpLimits>;
  }) {
    this.#folder = new SocketFolder(options.socketsDir);
    this.#activator = options.activator;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#limits = { ...defaultLimits, ...options.limits };
    // Each app that is being connected listens: many of them are no leak.
    setMaxListeners(0, this.#over.signal);
  }

  async definition(
    app: AppAddress,
    name: string,
    signal: AbortSignal,
  ): Promise<LiveTool | undefined> {
    const tools = await this.#with(app, signal, (connection) => connection.tools(signal));
    return tools.get(name);
  }

  async call(
    app: AppAddress,
    name: string,
    args: JsonObject,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const result = await this.#with(app, signal, (connection) =>
      connection.call(name, args, signal),
    );
    // Not before: an app that crashes at each call tells what its tools are each time.
    this.#link(app.appId).succeeded();
    return result;
  }

  isConnected(appId: string): boolean {
    return this.#links.get(appId)?.isConnected ?? false;
  }

  async mayBeReached({ appId, isActivatable }: AppAddress): Promise<boolean> {
    if (isActivatable || this.isConnected(appId)) return true;
    const found = await this.#folder.find(appId).catch(() => undefined);
    return found?.isThere ?? false;
  }

  /** Calls under way reject with `transport_closed`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort(new ToolAppError("transport_closed", "the assistant is ending"));
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  async #with<T>(
    app: AppAddress,
    signal: AbortSignal,
    use: (connection: AppConnection) => Promise<T>,
  ): Promise<T> {
    this.#over.signal.throwIfAborted();
    const link = this.#link(app.appId);
    const connection = await link.connection(app.isActivatable, signal);
    try {
      return await use(connection);
    } catch (error) {
      // A tool that fails, or takes its time, is an app that works.
      if (connection.isClosed) link.failed(error, connection);
      throw error;
    }
  }

  #link(appId: string): AppLink {
    const known = this.#links.get(appId);
    if (known) return known;
    const link = new AppLink({
      appId,
      folder: this.#folder,
      activator: this.#activator,
      version: this.#version,
      clock: this.#clock,
      logger: this.#logger,
      limits: this.#limits,
      signal: this.#over.signal,
    });
    this.#links.set(appId, link);
    return link;
  }
}
