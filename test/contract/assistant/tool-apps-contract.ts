import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../../src/assistant/agent/port.ts";
import {
  type AppAddress,
  type LiveTool,
  ToolAppError,
  type ToolApps,
} from "../../../src/assistant/agent/tool-apps.ts";

/** The reaction of a scripted app to a call of one of its tools. */
export type ScriptedAnswer =
  | {
      readonly kind: "result";
      readonly structured?: JsonObject;
      readonly content?: readonly unknown[];
      readonly isError?: boolean;
    }
  /** The app answers with a JSON-RPC error. */
  | { readonly kind: "error"; readonly message: string }
  /** The app never answers. */
  | { readonly kind: "hang" }
  /** The app answers when `release` resolves. */
  | { readonly kind: "late"; readonly release: Promise<void>; readonly structured: JsonObject }
  /** The app's connection ends in the middle of the call. */
  | { readonly kind: "die" }
  /** The app sends an answer that is not the result of a tool. */
  | { readonly kind: "nonsense" }
  /** The app sends an answer that exceeds the limit of a frame. */
  | { readonly kind: "huge" };

export interface ScriptedTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly answer: ScriptedAnswer;
}

export interface ScriptedApp {
  readonly address: AppAddress;
  /** The calls that have reached the app, in order. */
  readonly received: readonly { readonly name: string; readonly args: JsonObject }[];
  /** Replaces the app's tools, and makes the app announce the change. Resolves when the announcement was received. */
  setTools(tools: readonly ScriptedTool[]): Promise<void>;
  /** Ends the app with all its connections. */
  die(): Promise<void>;
}

export interface ToolAppsHarness extends AsyncDisposable {
  /** The adapter under test. Its calls to apps time out after `callLimitMs`. */
  readonly apps: ToolApps;
  readonly callLimitMs: number;
  /** The ids of the apps that could be started. */
  readonly startable: Set<string>;
  /** Starts an app. An app with the same id that died is replaced. */
  start(appId: string, tools: readonly ScriptedTool[]): Promise<ScriptedApp>;
  /** Ends the app as SIGKILL does: its socket file stays. */
  crash(app: ScriptedApp): Promise<void>;
}

const schema: JsonObject = {
  type: "object",
  properties: { title: { type: "string", maxLength: 120 } },
  required: ["title"],
  additionalProperties: false,
};

function tool(name: string, answer: ScriptedAnswer): ScriptedTool {
  return { name, description: `Does ${name}.`, inputSchema: schema, answer };
}

/** Returns the ToolAppError with which the call rejects. Throws if the call resolves, or rejects with another error. */
async function failure(work: Promise<unknown>): Promise<ToolAppError> {
  const error: unknown = await work.then(
    () => new Error("it succeeded"),
    (reason: unknown) => reason,
  );
  if (error instanceof ToolAppError) return error;
  throw error;
}

/** Checks the behaviour that the agent relies on, for the adapter of MCP apps and for the fake. */
export function toolAppsContract(adapter: string, open: () => Promise<ToolAppsHarness>): void {
  describe(`the tool apps port on ${adapter}`, () => {
    let harness: ToolAppsHarness;
    let appNumber = 0;
    const signal = new AbortController().signal;

    beforeAll(async () => {
      harness = await open();
    });
    afterAll(async () => {
      await harness[Symbol.asyncDispose]();
    });

    function start(...tools: readonly ScriptedTool[]): Promise<ScriptedApp> {
      appNumber += 1;
      return harness.start(`org.example.scripted${appNumber}`, tools);
    }

    async function defined(app: ScriptedApp, name: string): Promise<LiveTool | undefined> {
      return harness.apps.getDefinition(app.address, name, signal);
    }

    async function call(app: ScriptedApp, name: string, args: JsonObject = { title: "x" }) {
      await defined(app, name);
      return harness.apps.call(app.address, name, args, signal);
    }

    it("the adapter returns the definition of a tool, and undefined for an unknown tool", async () => {
      const app = await start(tool("create", { kind: "result" }));
      const live = await defined(app, "create");
      expect(live).toEqual({ description: "Does create.", inputSchema: schema });
      const titled = await start({ ...tool("create", { kind: "result" }), title: "Create" });
      expect(await defined(titled, "create")).toEqual({ ...live, title: "Create" });
      expect(await defined(app, "other")).toBeUndefined();
      expect(app.received).toEqual([]);
    });

    it("the adapter passes the arguments to the tool unchanged, and returns the tool's result", async () => {
      const content = [{ type: "text", text: "done" }];
      const structured = { id: "n1", tags: ["a", "ä"], none: null };
      const app = await start(tool("create", { kind: "result", structured, content }));
      const args = { title: 'a "quoted" title\nwith ☃ and \u0000' };
      expect(await call(app, "create", args)).toEqual({ structured, content, isError: false });
      expect(app.received).toEqual([{ name: "create", args }]);
    });

    it("the adapter returns a result without structured content", async () => {
      const content = [{ type: "text", text: "plain" }];
      const app = await start(tool("create", { kind: "result", content }));
      expect((await call(app, "create")).structured).toBeUndefined();
    });

    it("the adapter returns the failure that a tool itself reports", async () => {
      const content = [{ type: "text", text: "no such note" }];
      const app = await start(tool("create", { kind: "result", content, isError: true }));
      expect(await call(app, "create")).toMatchObject({ isError: true, content });
    });

    it("the adapter shortens the error message of an app to one line", async () => {
      const message = `it broke\nhere ${"x".repeat(2_000)}`;
      const app = await start(tool("create", { kind: "error", message }));
      const error = await failure(call(app, "create"));
      expect(error.code).toBe("tool_error");
      expect(error.message).toContain("it broke");
      expect(error.message).not.toContain("\n");
      expect(error.message.length).toBeLessThan(700);
    });

    it("the adapter throws app_unavailable if the app is not running and cannot be started", async () => {
      const nobody = { appId: "org.example.nobody", isActivatable: false };
      const error = await failure(harness.apps.getDefinition(nobody, "create", signal));
      expect(error.code).toBe("app_unavailable");
      expect(harness.apps.isConnected(nobody.appId)).toBe(false);
    });

    it("the adapter sends a call only once, even if the connection is lost", async () => {
      const app = await start(tool("create", { kind: "die" }));
      expect((await failure(call(app, "create"))).code).toBe("transport_closed");
      expect(app.received).toHaveLength(1);
      const again = await harness.start(app.address.appId, [tool("create", { kind: "result" })]);
      expect((await call(again, "create")).isError).toBe(false);
      expect(again.received).toHaveLength(1);
    });

    it("the adapter reports whether an app is connected", async () => {
      const app = await start(tool("create", { kind: "result" }));
      await defined(app, "create");
      expect(harness.apps.isConnected(app.address.appId)).toBe(true);
      await app.die();
      await expect.poll(() => harness.apps.isConnected(app.address.appId)).toBe(false);
      expect((await failure(defined(app, "create"))).code).toBe("app_unavailable");
    });

    it("the adapter reports whether an app is available, and sends the app nothing to find out", async () => {
      const nobody = { appId: "org.example.nobody", isActivatable: false };
      expect(await harness.apps.isReachable(nobody)).toBe(false);
      // Its manifest allows starting it, but nothing knows how to start it.
      expect(await harness.apps.isReachable({ ...nobody, isActivatable: true })).toBe(false);
      const app = await start(tool("create", { kind: "result" }));
      expect(await harness.apps.isReachable(app.address)).toBe(true);
      expect(harness.apps.isConnected(app.address.appId)).toBe(false);
      await harness.crash(app);
      expect(await harness.apps.isReachable(app.address)).toBe(false);
      harness.startable.add(app.address.appId);
      expect(await harness.apps.isReachable(app.address)).toBe(false);
      expect(await harness.apps.isReachable({ ...app.address, isActivatable: true })).toBe(true);
    });

    it("the adapter ends a call that exceeds the time limit, and still delivers an answer that arrives later", async () => {
      const gate = new AbortController();
      const release = new Promise<void>((resolve) => {
        gate.signal.addEventListener("abort", () => resolve());
      });
      const late = { kind: "late", release, structured: { late: true } } as const;
      const [slow, dying] = [await start(tool("slow", late)), await start(tool("slow", late))];
      const [error, lost] = await Promise.all([
        failure(call(slow, "slow")),
        failure(call(dying, "slow")),
      ]);
      expect([error.code, lost.code]).toEqual(["timeout", "timeout"]);
      await dying.die();
      expect(await lost.late).toBeUndefined();
      gate.abort();
      expect(await error.late).toEqual({
        structured: { late: true },
        content: [],
        isError: false,
      });
      expect(slow.received).toHaveLength(1);
    });

    it("the adapter ends a call that is aborted, and rejects with the reason of the signal", async () => {
      const app = await start(tool("create", { kind: "hang" }));
      await defined(app, "create");
      const aborting = new AbortController();
      const reason = new Error("enough");
      const called = harness.apps.call(app.address, "create", { title: "x" }, aborting.signal);
      called.catch(() => {});
      await expect.poll(() => app.received.length).toBe(1);
      aborting.abort(reason);
      await expect(called).rejects.toBe(reason);
    });

    it("the adapter does not send a call whose signal has already aborted", async () => {
      const app = await start(tool("create", { kind: "result" }));
      await defined(app, "create");
      const reason = new Error("enough");
      const aborted = AbortSignal.abort(reason);
      const called = harness.apps.call(app.address, "create", { title: "x" }, aborted);
      await expect(called).rejects.toBe(reason);
      expect(app.received).toEqual([]);
    });

    it("the adapter rejects an invalid answer, and an answer that is too large", async () => {
      const app = await start(tool("odd", { kind: "nonsense" }), tool("big", { kind: "huge" }));
      expect((await failure(call(app, "odd"))).code).toBe("bad_result");
      const big = await harness.start(app.address.appId, [tool("big", { kind: "huge" })]);
      expect((await failure(call(big, "big"))).code).toBe("result_too_large");
    });

    it("the adapter delays no other call while one call hangs", async () => {
      const gate = new AbortController();
      const release = new Promise<void>((resolve) => {
        gate.signal.addEventListener("abort", () => resolve());
      });
      const late = { kind: "late", release, structured: { late: true } } as const;
      const app = await start(tool("late", late), tool("quick", { kind: "result" }));
      const first = call(app, "late");
      await expect.poll(() => app.received.length).toBe(1);
      expect((await call(app, "quick")).isError).toBe(false);
      gate.abort();
      expect((await first).structured).toEqual({ late: true });
    });

    it("the adapter returns the new definition of a tool that the app has changed", async () => {
      const app = await start(tool("create", { kind: "result" }));
      await defined(app, "create");
      const changed = { ...schema, properties: { title: { type: "string" } } };
      await app.setTools([
        { name: "create", inputSchema: changed, answer: { kind: "result" } },
        tool("other", { kind: "result" }),
      ]);
      const live = await defined(app, "create");
      expect(live).toEqual({ description: undefined, inputSchema: changed });
      expect(await defined(app, "other")).toBeDefined();
      await app.setTools([]);
      expect(await defined(app, "create")).toBeUndefined();
    });
  });
}
