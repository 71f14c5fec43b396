import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { McpLimits } from "../../../src/assistant/agent/mcp/mcp-limits.ts";
import type { ToolAppError } from "../../../src/assistant/agent/tool-apps.ts";
import { getToolAppError, McpHarness } from "../../support/mcp-harness.ts";
import { echoTool, type RawMessage, type RawPeer, type RawScript } from "../../support/raw-app.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const APP = "org.example.Hostile";
const MIB = 1024 * 1024;

let harness: McpHarness;

beforeEach(async () => {
  harness = await McpHarness.open();
});

/**
 * Opens the harness again with shorter time limits, for the tests that wait for a time limit. All other tests use the
 * usual limits, which suffice even on a busy machine.
 */
async function hurry(limits: Partial<McpLimits>): Promise<void> {
  await harness[Symbol.asyncDispose]();
  harness = await McpHarness.open({ limits });
}

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

/** Returns a script for an app that behaves correctly except when one of its tools is called. */
function onCall(reaction: (call: RawMessage, peer: RawPeer) => void): RawScript {
  return (message, peer) => {
    if (message.method !== "tools/call") return undefined;
    reaction(message, peer);
    return "handled";
  };
}

describe("initialising an app", () => {
  it("that accepts the connection and stays silent fails with timeout, and delays no other app", async () => {
    await hurry({ probeTimeoutMs: 100, handshakeTimeoutMs: 2_000 });
    await harness.startRawApp(APP, () => "handled");
    await harness.startRawApp("org.example.Quick");
    const hanging = getToolAppError(harness.call(APP, "echo"));
    for (let round = 0; round < 20; round += 1) await harness.call("org.example.Quick", "echo");
    expect(harness.apps.isConnected(APP)).toBe(false);
    expect((await hanging).code).toBe("timeout");
  });

  it("that closes the connection on unknown requests falls back to the older handshake", async () => {
    const app = await harness.startRawApp(APP, (message, peer) => {
      if (message.method !== "server/discover") return undefined;
      peer.socket.destroy();
      return "handled";
    });
    expect((await harness.call(APP, "echo", { a: 1 })).structured).toEqual({ a: 1 });
    expect(app.connections).toBe(2);
  });

  it("that ignores unknown requests falls back to the older handshake", async () => {
    await hurry({ probeTimeoutMs: 100 });
    const app = await harness.startRawApp(APP, (message) =>
      message.method === "server/discover" ? "handled" : undefined,
    );
    expect((await harness.call(APP, "echo", { a: 1 })).structured).toEqual({ a: 1 });
    expect(app.connections).toBe(2);
  });

  it("that closes the connection at once fails with transport_closed", async () => {
    await harness.startRawApp(APP, (_, peer) => {
      peer.socket.destroy();
      return "handled";
    });
    expect((await getToolAppError(harness.call(APP, "echo"))).code).toBe("transport_closed");
  });

  it("that supports no known version of MCP fails with bad_result", async () => {
    await harness.startRawApp(APP, (message, peer) => {
      if (message.method !== "initialize") return undefined;
      peer.answer(message, { protocolVersion: "1999-01-01", capabilities: {}, serverInfo: {} });
      return "handled";
    });
    expect((await getToolAppError(harness.call(APP, "echo"))).code).toBe("bad_result");
  });

  it("without tools yields an empty list of tools", async () => {
    await harness.startRawApp(APP, (message, peer) => {
      if (message.method !== "initialize") return undefined;
      peer.answer(message, {
        protocolVersion: "2025-06-18",
        capabilities: {},
        serverInfo: { name: "bare", version: "1" },
      });
      return "handled";
    });
    const app = { appId: APP, isActivatable: false };
    const { signal } = new AbortController();
    expect(await harness.apps.getDefinition(app, "echo", signal)).toBeUndefined();
  });
});

describe("an app that writes unusual or invalid data", () => {
  const answers: readonly (readonly [string, string, (peer: RawPeer, id: unknown) => void])[] = [
    ["text that is not JSON", "bad_result", ({ socket }) => socket.write("hello\n")],
    ["JSON that is not a message", "bad_result", ({ send }) => send({ hello: 1 })],
    ["a number", "bad_result", ({ send }) => send(7)],
    ["a batch", "bad_result", ({ send }, id) => send([{ jsonrpc: "2.0", id, result: {} }])],
    ["invalid UTF-8", "bad_result", ({ socket }, id) => socket.write(notUtf8(id))],
    ["half a line", "transport_closed", ({ socket }) => socket.end('{"jsonrpc":"2.0","id":')],
    ["a closed connection", "transport_closed", ({ socket }) => socket.destroy()],
    ["an answer to another request", "timeout", ({ send }) => send(resultOf(4711, []))],
    ["an id of another type", "timeout", ({ send }, id) => send(resultOf(String(id), []))],
    ["an answer without id", "timeout", ({ send }) => send(errorOf(null))],
    ["content that is not a list", "bad_result", ({ send }, id) => send(resultOf(id, null))],
    ["wrong blocks", "bad_result", ({ send }, id) => send(resultOf(id, [{ type: "text" }]))],
    ["too many blocks", "bad_result", ({ send }, id) => send(resultOf(id, zeros(1_001)))],
    ["a million values", "bad_result", ({ send }, id) => send(resultOf(id, [zeros(1_000_000)]))],
    ["deep nesting", "bad_result", ({ socket }, id) => socket.write(deepLine(id, 100_000))],
    ["5 MiB", "result_too_large", ({ send }, id) => send(resultOf(id, ["x".repeat(5 * MIB)]))],
  ];

  it.each(answers)(
    "causes only the call that it answers to fail: %s causes the error code %s",
    async (_, code, write) => {
      if (code === "timeout") await hurry({ callTimeoutMs: 700 });
      const app = await harness.startRawApp(
        APP,
        onCall((call, peer) => write(peer, call.id)),
      );
      expect((await getToolAppError(harness.call(APP, "echo"))).code).toBe(code);
      expect(app.methods.filter((method) => method === "tools/call")).toHaveLength(1);
      // The app gets the next call over the same connection.
      app.script = () => undefined;
      expect((await harness.call(APP, "echo", { a: 1 })).structured).toEqual({ a: 1 });
    },
  );

  it("may send a line of 4 MiB", async () => {
    const text = "ä".repeat(2 * MIB - 100);
    await harness.startRawApp(
      APP,
      onCall((call, peer) => peer.answer(call, { content: [{ type: "text", text }] })),
    );
    expect((await harness.call(APP, "echo")).content).toEqual([{ type: "text", text }]);
  });

  it("causes a refusal if a line is nested too deeply, before the line is parsed", async () => {
    await harness.startRawApp(
      APP,
      // The line has no closing brackets: the depth must be refused before the line is parsed as JSON.
      onCall((_, { socket }) => void socket.write(`${"[".repeat(MIB)}\n`)),
    );
    const failure = await getToolAppError(harness.call(APP, "echo"));
    expect(failure.code).toBe("bad_result");
    expect(failure.message).toContain("nested more than 100 levels deep");
  });

  it("is disconnected when it writes a line without an end, and the companion does not store the line", async () => {
    const piece = Buffer.alloc(MIB, "x");
    let written = 0;
    await harness.startRawApp(
      APP,
      onCall((_, { socket }) => {
        const more = () => {
          for (; written < 50 * MIB && !socket.destroyed; written += piece.length) {
            if (!socket.write(piece)) {
              socket.once("drain", more);
              written += piece.length;
              return;
            }
          }
        };
        more();
      }),
    );
    expect((await getToolAppError(harness.call(APP, "echo"))).code).toBe("result_too_large");
    expect(written).toBeLessThan(8 * MIB);
  });

  it("cannot write an error message of several lines: it is shortened to one line", async () => {
    const message = `a\u0000b\u202Ec\n${"😀".repeat(1_000)}`;
    await harness.startRawApp(
      APP,
      onCall(({ id }, { send }) => send({ jsonrpc: "2.0", id, error: { code: -1, message } })),
    );
    const failure = await getToolAppError(harness.call(APP, "echo"));
    expect(failure.code).toBe("tool_error");
    expect(failure.message).toMatch(/: a b c 😀+…$/u);
    expect(failure.message.length).toBeLessThan(600);
    expect(failure.message).not.toMatch(/[\uD800-\uDFFF]/u);
  });
});

describe("an app that answers late", () => {
  const clock = new VirtualClock();
  const held: { call: RawMessage; peer: RawPeer }[] = [];

  /**
   * Starts an app that answers only when the test makes it, and opens the harness with a virtual clock. The companion
   * waits for at most two late answers of the app.
   */
  async function startSlowApp() {
    await harness[Symbol.asyncDispose]();
    harness = await McpHarness.open({ clock, limits: { lateAnswersMax: 2 } });
    held.length = 0;
    return harness.startRawApp(
      APP,
      onCall((call, peer) => void held.push({ call, peer })),
    );
  }

  /** Calls the app, lets the time limit of the call pass, and returns the error. */
  async function timeOut(): Promise<ToolAppError> {
    const received = held.length;
    const failing = getToolAppError(harness.call(APP, "echo"));
    await expect.poll(() => held.length).toBe(received + 1);
    await clock.advance(60_000);
    return failing;
  }

  function answerCall(index: number, result: object): void {
    const { call, peer } = held[index] ?? {};
    if (!call || !peer) throw new Error(`there is no call ${index}`);
    peer.send({ jsonrpc: "2.0", id: call.id, ...result });
  }

  it("gets no notification that the call is cancelled, and the late answer still reaches the caller", async () => {
    const app = await startSlowApp();
    const [done, refused] = [await timeOut(), await timeOut()];
    expect([done.code, refused.code]).toEqual(["timeout", "timeout"]);
    expect(app.methods).not.toContain("notifications/cancelled");
    // The companion keeps the connection open although it is idle, because it waits for the two late answers.
    await clock.advance(6 * 60_000);
    expect(harness.apps.isConnected(APP)).toBe(true);
    answerCall(0, { result: { content: [], structuredContent: { late: true } } });
    answerCall(1, { error: { code: -32_000, message: "no\nspace" } });
    expect(await done.late).toEqual({ structured: { late: true }, content: [], isError: false });
    expect(await refused.late).toMatchObject({
      code: "tool_error",
      message: `${APP} refused: no space`,
    });
    await clock.advance(6 * 60_000);
    await expect.poll(() => harness.apps.isConnected(APP)).toBe(false);
  });

  it("is no longer waited for after ten minutes, if more answers are late than allowed, or if it closes the connection", async () => {
    const app = await startSlowApp();
    const [first, second, third] = [await timeOut(), await timeOut(), await timeOut()];
    const cancelled = () =>
      app.received.filter(({ method }) => method === "notifications/cancelled");
    await expect.poll(() => cancelled().length).toBe(1);
    expect(cancelled()[0]?.params).toEqual({ requestId: held[0]?.call.id, reason: "timed out" });
    expect(await first.late).toBeUndefined();
    await clock.advance(10 * 60_000 - 60_000);
    await expect.poll(() => cancelled().length).toBe(2);
    expect(await second.late).toBeUndefined();
    // The companion drops an answer that arrives after it has given the call up.
    answerCall(1, { result: { content: [], structuredContent: { late: true } } });
    app.script = () => undefined;
    expect((await harness.call(APP, "echo", { late: false })).structured).toEqual({ late: false });
    app.disconnect();
    expect(await third.late).toBeUndefined();
  });

  it("is not told the reason for which the caller has aborted the call", async () => {
    const app = await harness.startRawApp(
      APP,
      onCall(() => {}),
    );
    const address = { appId: APP, isActivatable: false };
    const giving = new AbortController();
    await harness.apps.getDefinition(address, "echo", giving.signal);
    const call = harness.apps.call(address, "echo", {}, giving.signal);
    call.catch(() => {});
    await expect.poll(() => app.methods.at(-1)).toBe("tools/call");
    giving.abort(new Error("a secret of the caller"));
    await expect(call).rejects.toThrow("a secret of the caller");
    await expect.poll(() => app.methods.at(-1)).toBe("notifications/cancelled");
    expect(JSON.stringify(app.received)).not.toContain("secret");
  });
});

describe("an app that sends requests and notifications of its own", () => {
  it("gets an error for every request", async () => {
    const asked = ["sampling/createMessage", "elicitation/create", "roots/list", "x/y", "ping"];
    const app = await harness.startRawApp(
      APP,
      onCall((call, peer) => {
        for (const [index, method] of asked.entries()) {
          peer.send({ jsonrpc: "2.0", id: `ours-${index}`, method, params: {} });
        }
        peer.answer(call, { content: [] });
      }),
    );
    await harness.call(APP, "echo");
    const answers = () => app.received.filter(({ id }) => String(id).startsWith("ours-"));
    await expect.poll(() => answers().length).toBe(asked.length);
    expect(answers().map(({ error }) => error?.code)).toEqual([
      -32_601,
      -32_601,
      -32_601,
      -32_601,
      undefined,
    ]);
  });

  it.each([
    ["notifications", () => ({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })],
    ["requests", (id: number) => ({ jsonrpc: "2.0", id, method: "sampling/createMessage" })],
    ["answers", (id: number) => resultOf(1_000_000 + id, [])],
  ])("is disconnected when it floods with %s", async (_, message) => {
    await harness.startRawApp(
      APP,
      onCall((_call, { send }) => {
        for (let index = 0; index < 5_000; index += 1) send(message(index));
      }),
    );
    const failure = await getToolAppError(harness.call(APP, "echo"));
    expect(failure.code).toBe("transport_closed");
    expect(failure.message).toContain("200 unsolicited messages in a second");
  });

  it("may send a few hundred messages in one burst", async () => {
    const message = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info" } };
    await harness.startRawApp(
      APP,
      onCall((call, peer) => {
        for (let index = 0; index < 500; index += 1) peer.send(message);
        peer.answer(call, { content: [] });
      }),
    );
    expect((await harness.call(APP, "echo")).isError).toBe(false);
  });

  it("cannot answer a call by asking for more input", async () => {
    await harness.startRawApp(APP, (message, peer) => {
      if (message.method === "server/discover") {
        peer.answer(message, {
          resultType: "complete",
          supportedVersions: ["2026-07-28"],
          capabilities: { tools: {} },
        });
      } else if (message.method === "tools/list") {
        const cache = { ttlMs: 0, cacheScope: "private" };
        peer.answer(message, { resultType: "complete", tools: [echoTool], ...cache });
      } else if (message.method === "tools/call") {
        const input = { method: "roots/list", params: {} };
        peer.answer(message, { resultType: "input_required", inputRequests: { a: input } });
      }
      return "handled";
    });
    const failure = await getToolAppError(harness.call(APP, "echo"));
    expect(failure.code).toBe("tool_error");
    expect(failure.message).toContain("more input");
  });
});

describe("an app's list of tools", () => {
  const lists: readonly (readonly [string, (page: number) => unknown])[] = [
    ["is endless", (page) => ({ tools: [], nextCursor: String(page) })],
    ["has a cyclic cursor", () => ({ tools: [], nextCursor: "again" })],
    ["is too long", (page) => ({ tools: many(page, 501), nextCursor: String(page) })],
    ["has a duplicate tool", () => ({ tools: [echoTool, echoTool] })],
    ["is not a list", () => ({ tools: "none" })],
  ];

  it.each(lists)("is refused with the code bad_result if it %s", async (_, page) => {
    let pages = 0;
    await harness.startRawApp(APP, (message, peer) => {
      if (message.method !== "tools/list") return undefined;
      pages += 1;
      peer.answer(message, page(pages));
      return "handled";
    });
    expect((await getToolAppError(harness.call(APP, "echo"))).code).toBe("bad_result");
    expect(pages).toBeLessThanOrEqual(64);
  });

  it("may have a thousand tools on many pages", async () => {
    await harness.startRawApp(APP, (message, peer) => {
      if (message.method !== "tools/list") return undefined;
      const page = Number(message.params?.["cursor"] ?? 0);
      const nextCursor = page < 19 ? String(page + 1) : undefined;
      peer.answer(message, { tools: many(page, 50), nextCursor });
      return "handled";
    });
    const app = { appId: APP, isActivatable: false };
    const { signal } = new AbortController();
    expect(await harness.apps.getDefinition(app, "tool-19-49", signal)).toBeDefined();
    expect(await harness.apps.getDefinition(app, "tool-20-0", signal)).toBeUndefined();
  });
});

function resultOf(id: unknown, content: readonly unknown[] | null): unknown {
  return { jsonrpc: "2.0", id, result: { content } };
}

/** A valid answer that contains one byte that is not UTF-8. */
function notUtf8(id: unknown): Buffer {
  const line = `${JSON.stringify(resultOf(id, [{ type: "text", text: "?" }]))}\n`;
  return Buffer.from(line.replace("?", "\u00FF"), "latin1");
}

function errorOf(id: unknown): unknown {
  return { jsonrpc: "2.0", ...(id !== null && { id }), error: { code: 1, message: "no" } };
}

function zeros(count: number): readonly number[] {
  return Array.from({ length: count }, () => 0);
}

function many(page: number, count: number): readonly unknown[] {
  return Array.from({ length: count }, (_, index) => ({
    ...echoTool,
    name: `tool-${page}-${index}`,
  }));
}

function deepLine(id: unknown, depth: number): string {
  const nested = "[".repeat(depth) + "]".repeat(depth);
  return `{"jsonrpc":"2.0","id":${String(id)},"result":{"content":[],"structuredContent":{"a":${nested}}}}\n`;
}
