import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Activator } from "../../src/assistant/agent/mcp/activation/port.ts";
import { McpApps } from "../../src/assistant/agent/mcp/mcp-apps.ts";
import type { McpLimits } from "../../src/assistant/agent/mcp/mcp-limits.ts";
import type { JsonObject } from "../../src/assistant/agent/port.ts";
import { ToolAppError, type ToolResult } from "../../src/assistant/agent/tool-apps.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { RawApp, type RawScript } from "./raw-app.ts";

/** A socket folder, an adapter for it, and the apps of one test. */
export class McpHarness implements AsyncDisposable {
  readonly dir: string;
  readonly socketsDir: string;
  readonly apps: McpApps;
  readonly #parts: AsyncDisposable[] = [];

  static async open(
    options: {
      readonly limits?: Partial<McpLimits>;
      readonly activator?: (socketsDir: string) => Activator;
      readonly clock?: Clock;
    } = {},
  ): Promise<McpHarness> {
    return new McpHarness(await mkdtemp(join(tmpdir(), "berth-mcp-")), options);
  }

  private constructor(dir: string, options: Parameters<typeof McpHarness.open>[0] = {}) {
    this.dir = dir;
    this.socketsDir = join(dir, "assistant/apps");
    this.apps = new McpApps({
      socketsDir: this.socketsDir,
      activator: options.activator?.(this.socketsDir) ?? noActivator,
      clock: options.clock ?? systemClock,
      logger: silentLogger,
      ...(options.limits && { limits: options.limits }),
    });
  }

  async startRawApp(appId: string, script?: RawScript): Promise<RawApp> {
    return this.use(await RawApp.start(this.socketsDir, appId, script));
  }

  use<T extends AsyncDisposable>(part: T): T {
    this.#parts.push(part);
    return part;
  }

  /** Gets the definition of the tool, as the agent does before each call, and then calls the tool. */
  async call(
    appId: string,
    name: string,
    args: JsonObject = {},
    isActivatable = false,
  ): Promise<ToolResult> {
    const app = { appId, isActivatable };
    const { signal } = new AbortController();
    await this.apps.getDefinition(app, name, signal);
    return await this.apps.call(app, name, args, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.apps[Symbol.asyncDispose]();
    for (const part of this.#parts.toReversed()) await part[Symbol.asyncDispose]();
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** Returns the ToolAppError with which the call rejects. Throws if the call resolves, or rejects with another error. */
export async function getToolAppError(work: Promise<unknown>): Promise<ToolAppError> {
  const error: unknown = await work.then(
    () => new Error("it succeeded"),
    (reason: unknown) => reason,
  );
  if (error instanceof ToolAppError) return error;
  throw error;
}

const noActivator: Activator = {
  activate: (appId) =>
    Promise.reject(new ToolAppError("app_unavailable", `nobody knows how to start ${appId}`)),
  canStart: async () => false,
};
