import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { Registry } from "prom-client";
import { createApiServer } from "../../src/api/api-server.ts";
import { buildCompensation } from "../../src/assistant/agent/calls/compensation.ts";
import { readToolManifest } from "../../src/assistant/agent/manifests/parse-manifest.ts";
import { McpApps } from "../../src/assistant/agent/mcp/mcp-apps.ts";
import type { JsonObject } from "../../src/assistant/agent/port.ts";
import type { ToolResult } from "../../src/assistant/agent/tool-apps.ts";
import { BERTH_APPS_ID, berthAppsManifest } from "../../src/base/berth-tool-manifest.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { WebhookSender } from "../../src/controller/notifications/webhook-sender.ts";
import type { Manifest } from "../../src/resources/kinds.ts";
import type { TokenScope } from "../../src/store/store.ts";
import { AssistantToken } from "../../src/tool-server/assistant-token.ts";
import { ToolDispatcher } from "../../src/tool-server/tool-dispatcher.ts";
import { ToolServer } from "../../src/tool-server/tool-server.ts";
import { getAppSocketPath } from "../../src/tool-server/tool-socket.ts";
import { UndoRecords } from "../../src/tool-server/undo-records.ts";
import { ControlPlaneHarness } from "./control-plane-harness.ts";
import { FakeBuildControl } from "./fake-build-control.ts";
import type { FakeImage } from "./fake-engine.ts";

/**
 * The virtual time by which the clock advances after every PAUSE_MS of real time, so that reconcilers which wait for
 * seconds delay a test only briefly.
 */
const STEP_MS = 500;
const PAUSE_MS = 4;

/**
 * Berth's tools in a companion's environment: its MCP client on a real socket, the server of the tools, the real API on
 * a real store, and the real reconcilers with an in-memory engine and an accelerated clock.
 */
export class ToolHarness implements AsyncDisposable {
  readonly controlPlane: ControlPlaneHarness;
  readonly folder: string;
  readonly apps: McpApps;
  /** Unexpected errors of calls, which are thrown at the end of the test. */
  readonly #unexpected: unknown[] = [];
  /** The URL of the API, and the token, that the tools use. */
  target: { url: string; token: string | undefined; instance?: string };
  #tools: ToolServer;
  readonly #api: FastifyInstance;
  #isOver = false;
  readonly #time: Promise<void>;

  static async open(
    options: {
      readonly images?: Readonly<Record<string, FakeImage>>;
      readonly templates?: readonly Manifest<"Template">[];
    } = {},
  ): Promise<ToolHarness> {
    const folder = await mkdtemp(join(tmpdir(), "berth-tools-"));
    const controlPlane = new ControlPlaneHarness({
      images: options.images ?? {},
      ingress: "off",
    }).boot();
    const { store, controlPlane: control, clock } = controlPlane;
    const webhooks = new WebhookSender({
      store,
      clock,
      logger: silentLogger,
      version: "1.2.3",
      random: () => 0.5,
    });
    const api = createApiServer({
      store,
      control,
      builds: new FakeBuildControl(store),
      ingress: {
        mode: "off",
        state: () => ({ ready: false, message: "is off" }),
        api: () => undefined,
      },
      webhooks,
      clock,
      logger: silentLogger,
      metrics: new Registry(),
      version: "1.2.3",
      config: {
        baseDomain: "example.test",
        apiDomain: undefined,
        reservedPorts: [],
        trustedProxies: [],
        dataDir: controlPlane.dataDir,
        values: [],
        httpPort: undefined,
        httpsPort: undefined,
        uploadBytesMax: 1_000_000,
      },
      templates: options.templates ?? [],
      models: [],
    });
    const url = await api.listen({ host: "127.0.0.1", port: 0 });
    const tools = new ToolHarness(folder, controlPlane, api, url);
    await tools.serve();
    return tools;
  }

  private constructor(
    folder: string,
    controlPlane: ControlPlaneHarness,
    api: FastifyInstance,
    url: string,
  ) {
    this.folder = folder;
    this.controlPlane = controlPlane;
    this.#api = api;
    this.target = { url, token: this.token("admin") };
    this.#tools = this.#toolServer();
    this.apps = new McpApps({
      socketsDir: join(folder, "assistant", "apps"),
      activator: {
        activate: () => Promise.reject(new Error("the harness starts no apps")),
        canStart: async () => false,
      },
      clock: systemClock,
      logger: silentLogger,
    });
    this.#time = this.#passTime();
  }

  token(scope: TokenScope): string {
    const { tokens } = this.controlPlane.store;
    return tokens.create({
      name: `${scope}-${Math.random()}`,
      scope,
      kind: "named",
      lifetimeMs: null,
    }).token;
  }

  get socket(): string {
    return getAppSocketPath(this.folder, BERTH_APPS_ID);
  }

  get stateDir(): string {
    return join(this.folder, "state");
  }

  /** Starts the tool server. */
  async serve(): Promise<void> {
    await this.#tools.listen(this.socket);
  }

  /** Restarts the tool server on the same files, as after a crash. */
  async restart(waitMs?: number): Promise<void> {
    await this.#tools[Symbol.asyncDispose]();
    this.#tools = this.#toolServer(waitMs);
    await this.serve();
  }

  async stopServer(): Promise<void> {
    await this.#api.close();
  }

  async call(tool: string, args: JsonObject = {}): Promise<ToolResult> {
    const address = { appId: BERTH_APPS_ID, isActivatable: false };
    return this.apps.call(address, tool, args, new AbortController().signal);
  }

  /** Returns the structured result of a call, which must succeed. */
  async callExpectingSuccess(tool: string, args: JsonObject = {}): Promise<JsonObject> {
    const result = await this.call(tool, args);
    if (result.isError || !result.structured)
      throw new Error(`${tool} failed: ${JSON.stringify(result.content)}`);
    return result.structured;
  }

  /** Calls a tool, which must fail, and returns the content of its error result as JSON. */
  async callExpectingError(tool: string, args: JsonObject = {}): Promise<string> {
    const { isError, content } = await this.call(tool, args);
    const text = JSON.stringify(content);
    if (!isError) throw new Error(`${tool} did not fail: ${text}`);
    return text;
  }

  /** Calls the compensation that the manifest declares for `tool`, with the arguments that its `undo.map` computes. */
  async undo(tool: string, args: JsonObject, result: JsonObject): Promise<JsonObject> {
    const compensation = this.compensation(tool, args, result);
    if (typeof compensation === "string") throw new Error(`no undo of ${tool}: ${compensation}`);
    return this.callExpectingSuccess(compensation.tool, compensation.args);
  }

  compensation(tool: string, args: JsonObject, result: JsonObject) {
    const { manifest } = readToolManifest(berthAppsManifest, BERTH_APPS_ID);
    const undo = manifest?.tools.find(({ name }) => name === tool)?.undo;
    return undo ? buildCompensation(undo, args, result) : "the manifest has none";
  }

  #toolServer(waitMs = 60_000): ToolServer {
    const token = new AssistantToken({
      file: join(this.stateDir, "token.json"),
      findTarget: async () => ({ ...this.target, origin: "login" }),
    });
    const records = new UndoRecords(join(this.stateDir, "undo"));
    const onUnexpected = (error: unknown) => void this.#unexpected.push(error);
    return new ToolServer({ calls: new ToolDispatcher({ token, records, waitMs, onUnexpected }) });
  }

  async #passTime(): Promise<void> {
    while (!this.#isOver) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      await this.controlPlane.clock.advance(STEP_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.apps[Symbol.asyncDispose]();
    await this.#tools[Symbol.asyncDispose]();
    await this.#api.close();
    this.#isOver = true;
    await this.#time;
    await this.controlPlane[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
    if (this.#unexpected.length > 0) throw this.#unexpected[0];
  }
}
