import type { JsonObject } from "../../src/assistant/agent/port.ts";
import {
  type AppAddress,
  type LiveTool,
  ToolAppError,
  type ToolApps,
  type ToolResult,
} from "../../src/assistant/agent/tool-apps.ts";
import { raceWithAbort } from "../../src/base/race-with-abort.ts";
import type {
  ScriptedAnswer,
  ScriptedApp,
  ScriptedTool,
  ToolAppsHarness,
} from "../contract/assistant/tool-apps-contract.ts";

/** An app that runs in the test's process, and whose behaviour the test controls. */
export class FakeApp implements ScriptedApp {
  readonly address: AppAddress;
  readonly received: { readonly name: string; readonly args: JsonObject }[] = [];
  tools: readonly ScriptedTool[];
  isAlive = true;
  isConnected = false;
  /** Returns the app's answer to a call. If this function is undefined, each tool returns its scripted answer. */
  respond: ((name: string, args: JsonObject) => ScriptedAnswer) | undefined;

  readonly #death = new AbortController();

  constructor(address: AppAddress, tools: readonly ScriptedTool[]) {
    this.address = address;
    this.tools = tools;
  }

  async setTools(tools: readonly ScriptedTool[]): Promise<void> {
    this.tools = tools;
  }

  async die(): Promise<void> {
    this.isAlive = false;
    this.isConnected = false;
    this.#death.abort(new ToolAppError("transport_closed", "the app has closed the connection"));
  }

  async perform(name: string, args: JsonObject, signal: AbortSignal): Promise<ToolResult> {
    this.received.push({ name, args: structuredClone(args) });
    const found = this.tools.find((tool) => tool.name === name);
    if (!found) throw new ToolAppError("tool_error", `there is no tool ${name}`);
    const answer = this.respond?.(name, args) ?? found.answer;
    return raceWithAbort(this.#answer(answer), signal, this.#death.signal);
  }

  async #answer(answer: ScriptedAnswer): Promise<ToolResult> {
    switch (answer.kind) {
      case "result":
        return {
          structured: answer.structured,
          content: answer.content ?? [],
          isError: answer.isError ?? false,
        };
      case "error":
        throw new ToolAppError("tool_error", answer.message.replaceAll(/\s+/g, " ").slice(0, 500));
      case "late":
        await answer.release;
        return { structured: answer.structured, content: [], isError: false };
      case "hang":
        return new Promise(() => {});
      case "die":
        await this.die();
        return new Promise(() => {});
      case "nonsense":
        throw new ToolAppError("bad_result", "the app answered something that is no result");
      default:
        throw new ToolAppError("result_too_large", "the app answered more than 4 MiB");
    }
  }
}

/** ToolApps without processes and sockets. A test can read `calls`, and can make any step fail with `fault`. */
export class FakeToolApps implements ToolApps {
  readonly #apps = new Map<string, FakeApp>();
  /** The time limit of a call; undefined if there is none. */
  readonly #callLimitMs: number | undefined;
  /** Called at the start of `getDefinition` and of `call`, which fail with the error that it throws. */
  fault: (step: "definition" | "call", appId: string, name: string) => void = () => {};

  /** The ids of the apps that could be started. */
  readonly startable = new Set<string>();

  /** Called after the app has answered a call, and before the caller receives the answer. */
  after: (step: "call") => void = () => {};

  constructor(options: { readonly callLimitMs?: number } = {}) {
    this.#callLimitMs = options.callLimitMs;
  }

  start(appId: string, tools: readonly ScriptedTool[]): FakeApp {
    const app = new FakeApp({ appId, isActivatable: false }, tools);
    this.#apps.set(appId, app);
    return app;
  }

  crash(appId: string): void {
    void this.#apps.get(appId)?.die();
  }

  async getDefinition(
    { appId }: AppAddress,
    name: string,
    signal: AbortSignal,
  ): Promise<LiveTool | undefined> {
    signal.throwIfAborted();
    this.fault("definition", appId, name);
    const app = this.#apps.get(appId);
    if (!app?.isAlive) throw new ToolAppError("app_unavailable", `${appId} is not there`);
    app.isConnected = true;
    const tool = app.tools.find((one) => one.name === name);
    if (!tool) return undefined;
    const { title, description, inputSchema } = tool;
    return { title, description, inputSchema };
  }

  async call(
    { appId }: AppAddress,
    name: string,
    args: JsonObject,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    signal.throwIfAborted();
    this.fault("call", appId, name);
    const app = this.#apps.get(appId);
    if (!app?.isAlive) throw new ToolAppError("transport_closed", `${appId} is gone`);
    const performed = app.perform(name, args, signal).finally(() => this.after("call"));
    const limitMs = this.#callLimitMs;
    if (limitMs === undefined) return performed;
    let cancel: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const answer = performed.catch((error: unknown) =>
        error instanceof ToolAppError && error.code === "tool_error" ? error : undefined,
      );
      const message = `the app did not answer within ${limitMs} ms`;
      const error = new ToolAppError("timeout", message, { late: answer });
      cancel = setTimeout(() => reject(error), limitMs);
    });
    return Promise.race([performed, late]).finally(() => clearTimeout(cancel));
  }

  isConnected(appId: string): boolean {
    return this.#apps.get(appId)?.isConnected ?? false;
  }

  async isReachable({ appId, isActivatable }: AppAddress): Promise<boolean> {
    const isAlive = this.#apps.get(appId)?.isAlive ?? false;
    return isAlive || (isActivatable && this.startable.has(appId));
  }
}

export function fakeToolAppsHarness(): ToolAppsHarness {
  const callLimitMs = 50;
  const apps = new FakeToolApps({ callLimitMs });
  return {
    apps,
    callLimitMs,
    startable: apps.startable,
    start: async (appId, tools) => apps.start(appId, tools),
    crash: async (app) => apps.crash(app.address.appId),
    [Symbol.asyncDispose]: async () => {},
  };
}
