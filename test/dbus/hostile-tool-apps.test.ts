import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { assertText, CompanionClient } from "../support/companion-client.ts";
import { CompanionProcess } from "../support/companion-process.ts";
import { verifyLedgerAt } from "../support/ledger-fixtures.ts";
import { RawApp, type RawMessage, type RawPeer } from "../support/raw-app.ts";
import { type BusMonitor, TestSessionBus } from "../support/test-session-bus.ts";

/** Apps that offer tools and attack the real companion, and requests that are too large for a model. */

const APP = "org.example.Hostile";
const STUB_CONTEXT_TOKENS = 8_192;
const program = fileURLToPath(new URL("../support/hostile-app.mjs", import.meta.url));
const argument = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const undo = { tool: "unmake", map: { id: "$result.id" } };
const tools = [
  { name: "make", tier: "read", undo },
  { name: "unmake", tier: "read" },
  { name: "destroy", tier: "destructive" },
].map((tool) => ({ ...tool, description: `To ${tool.name}.`, input_schema: argument }));
const listed = tools.map(({ name }) => ({ name, inputSchema: argument }));

let bus: TestSessionBus;
let companion: CompanionProcess;
let client: CompanionClient;
/** The reaction of the app to a call of its tools. */
let onCall: (message: RawMessage, peer: RawPeer) => void;

beforeAll(async () => {
  bus = await TestSessionBus.start();
  companion = await CompanionProcess.prepare({ bus });
  for (const [appId, activatable] of [
    [APP, false],
    ["org.example.Stale", false],
    ["org.example.Unknown", true],
    ["org.example.Other", false],
  ] as const)
    await writeFile(
      join(companion.manifestsDir, `${appId}.json`),
      JSON.stringify({
        svc_manifest: 1,
        app_id: appId,
        name: "Hostile",
        mcp: { transport: "unix", activatable },
        tools,
      }),
    );
  await companion.start();
  client = await CompanionClient.connect(bus);
});
afterAll(async () => {
  for (const one of [client, companion, bus]) await one?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  onCall = (message, peer) => peer.answer(message, { content: [] });
});

const startApp = () =>
  RawApp.start(companion.ready.apps_dir, APP, (message, peer) => {
    if (message.method === "tools/list") peer.answer(message, { tools: listed });
    else if (message.method === "tools/call") onCall(message, peer);
    else return undefined;
    return "handled";
  });
const result = (id: string) => ({ content: [], structuredContent: { id } });
const destroy = (appId: string) => client.request(appId, "destroy", { id: "a" });
/** Starts an app as a process, which the test can kill or stop. */
async function startAppProcess(appId: string): Promise<ChildProcess> {
  const path = join(companion.ready.apps_dir, `${appId}.sock`);
  const child = spawn(process.execPath, [program, path, "hangs"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout ?? child, "data");
  return child;
}

/** Sends a question to the model of the companion. */
const chat = (content: string) =>
  fetch(`${companion.ready.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content }] }),
  });

describe("an app that offers tools", () => {
  it("cannot answer a call twice, or calls that it did not get", async () => {
    await using _ = await startApp();
    onCall = (message, peer) => {
      for (let id = 0; id < 50; id += 1)
        if (id !== message.id) peer.send({ jsonrpc: "2.0", id, result: result("forged") });
      peer.answer(message, result("first"));
      peer.answer(message, result("second"));
      peer.send({ jsonrpc: "2.0", id: message.id, error: { code: -1, message: "third" } });
    };
    const made = await client.request(APP, "make", { id: "a" });
    expect(made).toMatchObject({ status: "executed", detail: { result: { id: "first" } } });
    const undone: unknown[] = [];
    onCall = (message, peer) => {
      undone.push(message.params?.["arguments"]);
      peer.answer(message, { content: [] });
    };
    expect(await client.undo()).toMatchObject({ status: "undone", call_id: Number(made?.callId) });
    expect(undone).toEqual([{ id: "first" }]);
  });

  it("cannot give a call a result after an answer that is too large or wrong, on any connection", async () => {
    await using app = await startApp();
    for (const wrong of [
      { content: [{ type: "text", text: "x".repeat(5 << 20) }] },
      { content: 5 },
    ]) {
      let callId: RawMessage["id"];
      onCall = (message, peer) => {
        callId = message.id;
        peer.answer(message, wrong);
        peer.answer(message, result("late"));
      };
      const failed = await client.request(APP, "make", { id: "a" });
      expect(failed).toMatchObject({
        status: "failed",
        detail: { code: expect.stringMatching(/result_too_large|bad_result/), outcome: "unknown" },
      });
      // The app sends the answer again on its next connection, before the answer to the call there.
      onCall = (message, peer) => {
        if (callId !== message.id)
          peer.send({ jsonrpc: "2.0", id: callId, result: result("late") });
        peer.answer(message, result("other"));
      };
      const next = await client.request(APP, "make", { id: "b" });
      expect(next).toMatchObject({ status: "executed", detail: { result: { id: "other" } } });
      onCall = (message, peer) => peer.answer(message, { content: [] });
      expect(await client.undo()).toMatchObject({ call_id: Number(next?.callId) });
      expect((await client.confirm(failed?.callId ?? 0n))?.detail.code).toBe(failed?.detail.code);
    }
    expect(app.connections).toBeGreaterThan(1);
  });

  it("cannot use the companion as a client: its requests are refused, and a flood of them closes its connection", async () => {
    const refused: unknown[] = [];
    await using app = await startApp();
    onCall = (message, peer) => {
      const methods = ["sampling/createMessage", "roots/list", "elicitation/create", "tools/call"];
      for (const [at, method] of methods.entries())
        peer.send({ jsonrpc: "2.0", id: `x${at}`, method, params: {} });
      peer.answer(message, result("made"));
    };
    expect((await client.request(APP, "make", { id: "a" }))?.status).toBe("executed");
    const answers = () => app.received.filter(({ id }) => String(id).startsWith("x"));
    await expect.poll(() => answers().length).toBe(4);
    for (const { error } of answers()) refused.push(error?.code);
    expect(new Set(refused)).toEqual(new Set([-32_601]));
    onCall = (message, peer) => {
      for (let at = 0; at < 3_000; at += 1)
        peer.send({ jsonrpc: "2.0", id: `y${at}`, method: "roots/list" });
      peer.answer(message, result("made"));
    };
    await client.request(APP, "make", { id: "b" });
    await expect.poll(() => app.openConnections).toBe(0);
  });
});

describe("a call of a destructive tool", () => {
  let monitor: BusMonitor;
  beforeAll(async () => {
    monitor = await bus.monitor("dev.assistant.Agent1");
  });

  const unavailable = { status: "failed", detail: { code: "app_unavailable" } };

  it("fails before the user is asked if the app has crashed, and nothing can start it", async () => {
    for (const appId of ["org.example.Stale", "org.example.Unknown"]) {
      const child = await startAppProcess(appId);
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
      expect(await destroy(appId)).toMatchObject(unavailable);
    }
  });

  it("fails before the user is asked if another file is in the place of the socket", async () => {
    await using _ = await startApp();
    const path = join(companion.ready.apps_dir, "org.example.Other.sock");
    const files = [
      () => writeFileSync(path, "x"),
      () => mkdirSync(path),
      () => symlinkSync(join(companion.ready.apps_dir, `${APP}.sock`), path),
      () => symlinkSync("/dev/zero", path),
      () => {},
    ];
    for (const create of files) {
      create();
      expect(await destroy("org.example.Other")).toMatchObject(unavailable);
      rmSync(path, { recursive: true, force: true });
    }
  });

  it("of an app that accepts no connection does not wait for it", async () => {
    const child = await startAppProcess("org.example.Other");
    child.kill("SIGSTOP");
    try {
      // The kernel accepts connections for the stopped process until its queue is full.
      const asked = await Promise.all(
        Array.from({ length: 20 }, () =>
          client.request("org.example.Other", "destroy", { id: "a" }),
        ),
      );
      for (const answer of asked) {
        expect(["confirm-modal", "failed", "denied"]).toContain(answer?.status);
        if (answer?.status === "confirm-modal") await client.confirm(answer.callId, false);
      }
      expect((await client.request("org.example.Stale", "destroy", { id: "a" }))?.status).toBe(
        "failed",
      );
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("never asked the user in vain", () => {
    const asked = monitor.lines.filter((line) => line.includes("ConfirmationRequested"));
    expect(asked.filter((line) => /Stale|Unknown/.test(line))).toEqual([]);
  });
});

describe("a prompt that is longer than the context of the model", () => {
  const long = "word ".repeat(800_000);

  it("is refused with both numbers over HTTP and over the bus, and other requests are answered", async () => {
    const attack = Array.from({ length: 6 }, () => chat(long));
    expect((await chat("Hello")).status).toBe(200);
    for (const response of await Promise.all(attack)) {
      // One program may have a quarter of the memory for bodies, so not all of the six are read.
      expect([400, 429]).toContain(response.status);
      if (response.status === 400)
        expect(await response.text()).toMatch(
          new RegExp(`80\\d{4}.*${STUB_CONTEXT_TOKENS}|${STUB_CONTEXT_TOKENS}.*80\\d{4}`),
        );
    }
    const [path] = await client.call("Inference1", "OpenSession", "a{sv}", [
      new Map<string, never>(),
    ]);
    const session = { path: assertText(path), interface: "dev.assistant.Inference1.Session" };
    const none = new Map<string, never>();
    await expect(
      client.call("Inference1", "Generate", "sa{sv}", [long.slice(0, 3_900_000), none], session),
    ).rejects.toThrow(new RegExp(String(STUB_CONTEXT_TOKENS)));
    await client.call("Inference1", "Generate", "sa{sv}", ["Hello", none], session);
  });

  it("and every other attack leave a whole ledger and no unexpected line in the log", async () => {
    expect(companion.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    expect(companion.lines.filter((line) => !/^(\{|berth ready )/.test(line))).toEqual([]);
    expect(await companion.stop()).toBe(0);
    expect(verifyLedgerAt(join(companion.home, ".local/share/berth/companion")).status).toBe(
      "whole",
    );
  });
});
