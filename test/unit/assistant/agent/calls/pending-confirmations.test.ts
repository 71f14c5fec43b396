import { describe, expect, it } from "vitest";
import type { CallResult } from "../../../../../src/assistant/agent/port.ts";
import {
  AgentHarness,
  buildDeclaration,
  NOTES,
  notesTools,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

const ROUNDS = Number(process.env["BERTH_CONFIRM_ROUNDS"] ?? 1_000);
const other = userCaller(":1.2");

describe("a parked call", () => {
  it("runs when it is confirmed, with the arguments that were shown", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park("create", { title: "a" });
    expect(world.app.received).toEqual([]);
    const end = await world.agent.confirm(callId, true, other);
    expect(end).toMatchObject({
      status: "executed",
      detail: {
        code: "ok",
        result: { id: "n1" },
        undoable: true,
        undo: { tool: "delete", args: { id: "n1" } },
      },
    });
    expect(end.detail.replayed).toBeUndefined();
    expect(world.app.received).toEqual([{ name: "create", args: { title: "a" } }]);
    expect(world.resolved).toEqual([{ callId, status: "executed" }]);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
    ]);
    const dispatch = world.ledger.entries.find(({ name }) => name === "agent.call.dispatch");
    expect(end.detail.ledger?.seq).toBe(dispatch?.seq);
  });

  it("is on the disk before anybody is asked", async () => {
    const world = await AgentHarness.open();
    let kept = "";
    let told = 0;
    world.agent.subscribe({
      confirmationRequested: () => {
        kept = world.snapshot();
        told = world.ledger.entries.length;
      },
      callResolved: () => {},
    });
    const callId = await world.park();
    expect(told).toBe(2);
    world.dir = kept;
    await world.start();
    expect(await world.agent.confirm(callId, true, userCaller())).toMatchObject({
      status: "denied",
      detail: { code: "restarted" },
    });
  });

  it("is declined, and stays so", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const end = await world.agent.confirm(callId, false, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code: "declined", undoable: false } });
    const again = await world.agent.confirm(callId, true, userCaller());
    expect(again).toEqual({ ...end, detail: { ...end.detail, replayed: true } });
    expect(world.app.received).toEqual([]);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.declined",
    ]);
    expect(world.resolved).toEqual([{ callId, status: "denied" }]);
  });

  it("gives every later answer the first one's end, after a restart too", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const end = await world.agent.confirm(callId, true, userCaller());
    const replay = { ...end, detail: { ...end.detail, replayed: true } };
    expect(await world.agent.confirm(callId, false, other)).toEqual(replay);
    await world.restart();
    expect(await world.agent.confirm(callId, true, other)).toEqual(replay);
    expect(world.app.received).toHaveLength(1);
  });

  it("expires after five minutes", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    await world.clock.advance(299_000);
    expect(world.resolved).toEqual([]);
    await world.clock.advance(2_000);
    expect(world.resolved).toEqual([{ callId, status: "denied" }]);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.expired:expired",
    ]);
    const late = await world.agent.confirm(callId, true, userCaller());
    expect(late).toMatchObject({ status: "denied", detail: { code: "expired", replayed: true } });
    expect(world.app.received).toEqual([]);
  });

  it("expires while the machine sleeps, also where it is confirmed as the first thing after", async () => {
    const world = await AgentHarness.open();
    const first = await world.park();
    world.sleptMs = 300_000;
    const late = await world.agent.confirm(first, true, userCaller());
    expect(late).toMatchObject({ status: "denied", detail: { code: "expired" } });
    const second = await world.park();
    world.sleptMs += 299_999;
    await world.clock.advance(5_000);
    expect(world.resolved.at(-1)).toEqual({ callId: second, status: "denied" });
    expect(world.app.received).toEqual([]);
  });

  it("does not expire while it runs", async () => {
    const world = await AgentHarness.open();
    const gate = new AbortController();
    const release = new Promise<void>((resolve) => {
      gate.signal.addEventListener("abort", () => resolve());
    });
    world.app.respond = () => ({ kind: "late", release, structured: { id: "n1" } });
    const callId = await world.park();
    const confirming = world.agent.confirm(callId, true, userCaller());
    await world.clock.advance(400_000);
    gate.abort();
    expect((await confirming).status).toBe("executed");
  });

  it("is denied after a restart, and said to be in the ledger", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    await world.restart();
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code: "restarted", app_id: NOTES } });
    expect(world.app.received).toEqual([]);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.expired:restarted",
    ]);
  });

  it("stays when its requester goes away", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.agent.handleDisconnect(":1.1");
    expect((await world.agent.confirm(callId, true, other)).status).toBe("executed");
  });

  it("that there is not is unknown_call", async () => {
    const world = await AgentHarness.open();
    expect(await world.agent.confirm(77, true, userCaller())).toMatchObject({
      status: "failed",
      detail: { code: "unknown_call" },
    });
  });

  it.each([
    ["the tool is declared otherwise", "manifest_changed"],
    ["the tool is not declared any more", "manifest_changed"],
    ["the app is gone", "manifest_changed"],
    ["the app is disabled", "app_disabled"],
    ["the tool is disabled", "tool_disabled"],
    ["all is paused", "paused"],
  ] as const)("does not run where %s in the meantime", async (what, code) => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const app = { appId: NOTES, name: "Notes", isActivatable: false };
    if (what.endsWith("otherwise")) {
      const tools = notesTools.map((tool) => ({ ...tool, digest: "0".repeat(64) }));
      world.registry.set([{ ...app, tools }]);
    } else if (what.startsWith("the tool is not")) world.registry.set([{ ...app, tools: [] }]);
    else if (what.endsWith("gone")) world.registry.set([]);
    else if (code === "app_disabled")
      world.rules = { ...permissiveRules, disabledApps: new Set([NOTES]) };
    else if (code === "paused") world.rules = { ...permissiveRules, isPaused: true };
    else world.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code } });
    expect(world.app.received).toEqual([]);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      `call.result:${code}`,
    ]);
  });
});

describe("two who confirm at once", () => {
  it("come to one dispatch and the same answer, every time", async () => {
    const world = await AgentHarness.open();
    for (let round = 1; round <= ROUNDS; round += 1) {
      const callId = await world.park("create", { title: `${round}` });
      const ends = await Promise.all([
        world.agent.confirm(callId, true, userCaller()),
        world.agent.confirm(callId, round % 3 !== 0, other),
        world.agent.confirm(callId, true, userCaller(":1.3")),
      ]);
      expect(world.app.received).toHaveLength(round);
      const [first, ...later] = ends;
      const replay: CallResult = {
        status: first.status,
        detail: { ...first.detail, replayed: true },
      };
      expect(first.detail.replayed).toBeUndefined();
      expect(later).toEqual([replay, replay]);
    }
  });

  it("leave it declined where the first one declined", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const ends = await Promise.all([
      world.agent.confirm(callId, false, userCaller()),
      world.agent.confirm(callId, true, other),
    ]);
    expect(ends.map(({ detail }) => detail.code)).toEqual(["declined", "declined"]);
    expect(world.app.received).toEqual([]);
  });
});

describe("who may confirm", () => {
  it("is no sandboxed app: not its own call, and nobody else's", async () => {
    const world = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const own = await world.park("create", { title: "a" }, chat);
    const foreign = await world.park();
    for (const callId of [own, foreign]) {
      await expect(world.agent.confirm(callId, true, chat)).rejects.toMatchObject({
        code: "forbidden",
      });
    }
    expect(() => world.agent.registerConfirmer(chat)).toThrow("may not confirm");
    expect(world.app.received).toEqual([]);
    await world.agent.confirm(own, true, userCaller());
    await world.agent.confirm(foreign, true, userCaller());
    expect(await world.agent.confirm(own, true, chat)).toMatchObject({
      status: "executed",
      detail: { replayed: true },
    });
    expect((await world.agent.confirm(foreign, true, chat)).detail.code).toBe("unknown_call");
  });

  it("is not whoever asked, where the rules are strict", async () => {
    const world = await AgentHarness.open();
    world.rules = { ...permissiveRules, confirm: "strict" };
    const callId = await world.park();
    await expect(world.agent.confirm(callId, true, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    // Another connection of the same process is the same program.
    await expect(world.agent.confirm(callId, true, other)).rejects.toMatchObject({
      code: "forbidden",
    });
    const another = { ...other, pid: 101 };
    expect((await world.agent.confirm(callId, true, another)).status).toBe("executed");
    const nameless = { ...userCaller(), pid: undefined };
    const second = await world.park("create", { title: "a" }, nameless);
    expect((await world.agent.confirm(second, true, { ...other, pid: undefined })).status).toBe(
      "executed",
    );
  });

  it("is only the one that has registered, until it goes away", async () => {
    const world = await AgentHarness.open();
    world.agent.registerConfirmer(other);
    world.agent.registerConfirmer(other);
    expect(() => world.agent.registerConfirmer(userCaller())).toThrow("another program");
    const callId = await world.park();
    await expect(world.agent.confirm(callId, false, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    world.agent.handleDisconnect(":1.77");
    await expect(world.agent.confirm(callId, false, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    world.agent.handleDisconnect(":1.2");
    expect((await world.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    world.agent.registerConfirmer(userCaller());
  });
});

describe("listeners", () => {
  it("that throw cost nobody anything, and those that left hear nothing", async () => {
    const world = await AgentHarness.open();
    const heard: number[] = [];
    world.agent.subscribe({
      confirmationRequested: () => {
        throw new Error("broken");
      },
      callResolved: () => {
        throw new Error("broken");
      },
    });
    const leave = world.agent.subscribe({
      confirmationRequested: (callId) => heard.push(callId),
      callResolved: (callId) => heard.push(-callId),
    });
    const callId = await world.park();
    await world.agent.confirm(callId, true, userCaller());
    expect(heard).toEqual([callId, -callId]);
    leave();
    await world.park();
    expect(heard).toHaveLength(2);
  });
});

describe("the end of the daemon", () => {
  it("interrupts what does not end in time, and writes that down", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.app.respond = () => ({ kind: "hang" });
    const confirming = world.agent.confirm(callId, true, userCaller());
    await expect.poll(() => world.app.received.length).toBe(1);
    const closing = world.agent[Symbol.asyncDispose]();
    await expect(world.request("list", {})).rejects.toMatchObject({ code: "shutting_down" });
    await world.clock.advance(6_000);
    await closing;
    expect(await confirming).toMatchObject({ status: "failed", detail: { code: "interrupted" } });
    expect(world.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.result:interrupted");
    await world.start();
    expect((await world.agent.confirm(callId, true, userCaller())).detail).toMatchObject({
      code: "interrupted",
      replayed: true,
    });
  });
});

describe("what there is to call", () => {
  it("is told in order of app and name", async () => {
    const world = await AgentHarness.open();
    const b = buildDeclaration("b", "read", { type: "object" });
    const a = buildDeclaration("a", "write", { type: "object" });
    world.registry.set([
      { appId: "org.example.a", name: "A", isActivatable: false, tools: [b, a] },
      ...world.registry.apps(),
    ]);
    expect(world.agent.listTools().map(({ app_id, name }) => `${app_id}/${name}`)).toEqual([
      "org.example.a/a",
      "org.example.a/b",
      `${NOTES}/create`,
      `${NOTES}/delete`,
      `${NOTES}/list`,
      `${NOTES}/star`,
    ]);
    expect(world.agent.listTools()[2]).toEqual({
      app_id: NOTES,
      name: "create",
      tier: "write",
      description: "Does create.",
      undoable: true,
    });
  });
});
