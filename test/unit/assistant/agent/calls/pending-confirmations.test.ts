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

describe("a call that waits for confirmation", () => {
  it("runs with the arguments that the user saw, once the user confirms it", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park("create", { title: "a" });
    expect(harness.app.received).toEqual([]);
    const end = await harness.agent.confirm(callId, true, other);
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
    expect(harness.app.received).toEqual([{ name: "create", args: { title: "a" } }]);
    expect(harness.resolved).toEqual([{ callId, status: "executed" }]);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
    ]);
    const dispatch = harness.ledger.entries.find(({ name }) => name === "agent.call.dispatch");
    expect(end.detail.ledger?.seq).toBe(dispatch?.seq);
  });

  it("is not approved before the end of its hold time, stays parked, and can be declined at any time", async () => {
    const harness = await AgentHarness.open();
    const request = () =>
      harness.request("delete", { id: "none" }, { provenance: ["user", "web:news"] });
    const { callId, disposition } = await request();
    const [asked] = harness.confirmationRequests;
    expect([disposition, asked?.spec.hold_ms]).toEqual(["confirm-modal", 1_500]);
    const written = harness.ledger.entries.length;
    for (const waitMs of [0, 1_499]) {
      await harness.clock.advance(waitMs);
      await expect(harness.agent.confirm(callId, true, userCaller())).rejects.toMatchObject({
        code: "busy",
        retryAfterSeconds: expect.any(Number),
      });
    }
    expect(harness.ledger.entries).toHaveLength(written);
    expect(harness.agent.listParked(userCaller()).map(({ call_id: id }) => id)).toEqual([callId]);
    expect([harness.resolved, harness.app.received]).toEqual([[], []]);
    await harness.clock.advance(1);
    await harness.agent.confirm(callId, true, userCaller());
    expect(harness.app.received).toEqual([{ name: "delete", args: { id: "none" } }]);

    const second = await request();
    expect(await harness.agent.confirm(second.callId, false, userCaller())).toMatchObject({
      status: "denied",
      detail: { code: "declined" },
    });
  });

  it("is stored on the disk before the listeners are notified", async () => {
    const harness = await AgentHarness.open();
    let kept = "";
    let told = 0;
    harness.agent.subscribe({
      confirmationRequested: () => {
        kept = harness.snapshot();
        told = harness.ledger.entries.length;
      },
      callResolved: () => {},
    });
    const callId = await harness.park();
    expect(told).toBe(2);
    harness.dir = kept;
    await harness.start();
    expect(await harness.agent.confirm(callId, true, userCaller())).toMatchObject({
      status: "denied",
      detail: { code: "restarted" },
    });
  });

  it("can be declined, and the decline is final", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const end = await harness.agent.confirm(callId, false, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code: "declined", undoable: false } });
    const again = await harness.agent.confirm(callId, true, userCaller());
    expect(again).toEqual({ ...end, detail: { ...end.detail, replayed: true } });
    expect(harness.app.received).toEqual([]);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.declined",
    ]);
    expect(harness.resolved).toEqual([{ callId, status: "denied" }]);
  });

  it("returns the result of the first answer to every later answer, even after a restart", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const end = await harness.agent.confirm(callId, true, userCaller());
    const replay = { ...end, detail: { ...end.detail, replayed: true } };
    expect(await harness.agent.confirm(callId, false, other)).toEqual(replay);
    await harness.restart();
    expect(await harness.agent.confirm(callId, true, other)).toEqual(replay);
    expect(harness.app.received).toHaveLength(1);
  });

  it("expires after five minutes", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    await harness.clock.advance(299_000);
    expect(harness.resolved).toEqual([]);
    await harness.clock.advance(2_000);
    expect(harness.resolved).toEqual([{ callId, status: "denied" }]);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.expired:expired",
    ]);
    const late = await harness.agent.confirm(callId, true, userCaller());
    expect(late).toMatchObject({ status: "denied", detail: { code: "expired", replayed: true } });
    expect(harness.app.received).toEqual([]);
  });

  it("expires while the machine sleeps, even if a confirmation arrives first after the machine wakes up", async () => {
    const harness = await AgentHarness.open();
    const first = await harness.park();
    harness.sleptMs = 300_000;
    const late = await harness.agent.confirm(first, true, userCaller());
    expect(late).toMatchObject({ status: "denied", detail: { code: "expired" } });
    const second = await harness.park();
    harness.sleptMs += 299_999;
    await harness.clock.advance(5_000);
    expect(harness.resolved.at(-1)).toEqual({ callId: second, status: "denied" });
    expect(harness.app.received).toEqual([]);
  });

  it("does not expire after the user has confirmed it, however long it runs", async () => {
    const harness = await AgentHarness.open();
    const gate = new AbortController();
    const release = new Promise<void>((resolve) => {
      gate.signal.addEventListener("abort", () => resolve());
    });
    harness.app.respond = () => ({ kind: "late", release, structured: { id: "n1" } });
    const callId = await harness.park();
    const confirming = harness.agent.confirm(callId, true, userCaller());
    await harness.clock.advance(400_000);
    gate.abort();
    expect((await confirming).status).toBe("executed");
  });

  it("is denied after a restart, and the ledger records the denial", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    await harness.restart();
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code: "restarted", app_id: NOTES } });
    expect(harness.app.received).toEqual([]);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.expired:restarted",
    ]);
  });

  it("still waits when its requester disconnects", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.agent.handleDisconnect(":1.1");
    expect((await harness.agent.confirm(callId, true, other)).status).toBe("executed");
  });

  it("is reported as unknown_call if no call has the given id", async () => {
    const harness = await AgentHarness.open();
    expect(await harness.agent.confirm(77, true, userCaller())).toMatchObject({
      status: "failed",
      detail: { code: "unknown_call" },
    });
  });

  it.each([
    ["the declaration of the tool has changed", "manifest_changed"],
    ["the tool is no longer declared", "manifest_changed"],
    ["the app was removed", "manifest_changed"],
    ["the app is disabled", "app_disabled"],
    ["the tool is disabled", "tool_disabled"],
    ["all calls are paused", "paused"],
  ] as const)("does not run if %s in the meantime", async (what, code) => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const app = { appId: NOTES, name: "Notes", isActivatable: false };
    if (what.endsWith("has changed")) {
      const tools = notesTools.map((tool) => ({ ...tool, digest: "0".repeat(64) }));
      harness.registry.set([{ ...app, tools }]);
    } else if (what.startsWith("the tool is no longer"))
      harness.registry.set([{ ...app, tools: [] }]);
    else if (what.endsWith("removed")) harness.registry.set([]);
    else if (code === "app_disabled")
      harness.rules = { ...permissiveRules, disabledApps: new Set([NOTES]) };
    else if (code === "paused") harness.rules = { ...permissiveRules, isPaused: true };
    else harness.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({ status: "denied", detail: { code } });
    expect(harness.app.received).toEqual([]);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      `call.result:${code}`,
    ]);
  });
});

describe("two concurrent confirmations", () => {
  it("run the call once and get the same result", async () => {
    const harness = await AgentHarness.open();
    for (let round = 1; round <= ROUNDS; round += 1) {
      const callId = await harness.park("create", { title: `${round}` });
      const ends = await Promise.all([
        harness.agent.confirm(callId, true, userCaller()),
        harness.agent.confirm(callId, round % 3 !== 0, other),
        harness.agent.confirm(callId, true, userCaller(":1.3")),
      ]);
      expect(harness.app.received).toHaveLength(round);
      const [first, ...later] = ends;
      const replay: CallResult = {
        status: first.status,
        detail: { ...first.detail, replayed: true },
      };
      expect(first.detail.replayed).toBeUndefined();
      expect(later).toEqual([replay, replay]);
    }
  });

  it("both return `declined` if the first one declines", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const ends = await Promise.all([
      harness.agent.confirm(callId, false, userCaller()),
      harness.agent.confirm(callId, true, other),
    ]);
    expect(ends.map(({ detail }) => detail.code)).toEqual(["declined", "declined"]);
    expect(harness.app.received).toEqual([]);
  });
});

describe("permission to confirm a call", () => {
  it("is refused to a sandboxed app, both for its own calls and for calls of other apps", async () => {
    const harness = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const own = await harness.park("create", { title: "a" }, chat);
    const foreign = await harness.park();
    for (const callId of [own, foreign]) {
      await expect(harness.agent.confirm(callId, true, chat)).rejects.toMatchObject({
        code: "forbidden",
      });
    }
    await expect(harness.agent.registerConfirmer(chat)).rejects.toThrow("may not confirm");
    expect(harness.app.received).toEqual([]);
    await harness.agent.confirm(own, true, userCaller());
    await harness.agent.confirm(foreign, true, userCaller());
    expect(await harness.agent.confirm(own, true, chat)).toMatchObject({
      status: "executed",
      detail: { replayed: true },
    });
    expect((await harness.agent.confirm(foreign, true, chat)).detail.code).toBe("unknown_call");
  });

  it("is refused to the requester under strict rules", async () => {
    const harness = await AgentHarness.open();
    harness.rules = { ...permissiveRules, confirm: "strict" };
    const callId = await harness.park();
    await expect(harness.agent.confirm(callId, true, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    // Another connection of the same process counts as the same program.
    await expect(harness.agent.confirm(callId, true, other)).rejects.toMatchObject({
      code: "forbidden",
    });
    const another = { ...other, pid: 101 };
    expect((await harness.agent.confirm(callId, true, another)).status).toBe("executed");
  });

  it("is limited to the registered connection until that connection closes", async () => {
    const harness = await AgentHarness.open();
    const registered = harness.agent.registerConfirmer(other);
    // The first program is registered when its call arrives, even before the ledger has recorded the registration.
    await expect(harness.agent.registerConfirmer(userCaller())).rejects.toMatchObject({
      code: "busy",
    });
    await registered;
    await harness.agent.registerConfirmer(other);
    expect(harness.ledger.entries).toMatchObject([
      { name: "agent.confirmer.register", fields: { by: { connection: ":1.2" } } },
    ]);
    const callId = await harness.park();
    await expect(harness.agent.confirm(callId, false, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    harness.agent.handleDisconnect(":1.77");
    await expect(harness.agent.confirm(callId, false, userCaller())).rejects.toMatchObject({
      code: "forbidden",
    });
    harness.agent.handleDisconnect(":1.2");
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    await harness.agent.registerConfirmer(userCaller());
  });

  it("is not limited if the ledger cannot record the registration, or the connection closes meanwhile", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.ledger.mode = "down";
    await expect(harness.agent.registerConfirmer(other)).rejects.toMatchObject({
      code: "ledger_unavailable",
    });
    harness.ledger.mode = "ok";
    const registering = harness.agent.registerConfirmer(other);
    harness.agent.handleDisconnect(":1.2");
    await registering;
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    await harness.agent.registerConfirmer(userCaller());
  });
});

describe("listeners for confirmations", () => {
  it("that throw do not affect other listeners, and get no events after they unsubscribe", async () => {
    const harness = await AgentHarness.open();
    const heard: number[] = [];
    harness.agent.subscribe({
      confirmationRequested: () => {
        throw new Error("broken");
      },
      callResolved: () => {
        throw new Error("broken");
      },
    });
    const leave = harness.agent.subscribe({
      confirmationRequested: (callId) => heard.push(callId),
      callResolved: (callId) => heard.push(-callId),
    });
    const callId = await harness.park();
    await harness.agent.confirm(callId, true, userCaller());
    expect(heard).toEqual([callId, -callId]);
    leave();
    await harness.park();
    expect(heard).toHaveLength(2);
  });
});

describe("closing the agent", () => {
  it("interrupts calls that do not end in time, and records the interruption", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.app.respond = () => ({ kind: "hang" });
    const confirming = harness.agent.confirm(callId, true, userCaller());
    await expect.poll(() => harness.app.received.length).toBe(1);
    const closing = harness.agent[Symbol.asyncDispose]();
    await expect(harness.request("list", {})).rejects.toMatchObject({ code: "shutting_down" });
    await harness.clock.advance(2_000);
    await closing;
    expect(await confirming).toMatchObject({
      status: "failed",
      detail: { code: "interrupted", outcome: "unknown" },
    });
    expect(harness.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.result:interrupted");
    await harness.start();
    expect((await harness.agent.confirm(callId, true, userCaller())).detail).toMatchObject({
      code: "interrupted",
      replayed: true,
    });
  });

  it("can begin before the daemon closes its other parts, so that both take their time concurrently", async () => {
    const harness = await AgentHarness.open();
    harness.app.respond = () => ({ kind: "hang" });
    const running = harness.request("list", {});
    await expect.poll(() => harness.app.received.length).toBe(1);
    harness.agent.beginShutdown();
    await harness.clock.advance(1_999);
    expect(harness.ledger.entries.map(({ name }) => name)).not.toContain("agent.call.result");
    await harness.clock.advance(1);
    expect((await running).detail).toMatchObject({ code: "interrupted", outcome: "unknown" });
    await harness.agent[Symbol.asyncDispose]();
  });
});

describe("the ids of calls", () => {
  it("continue without a gap after a restart, and are never used again after a kill", async () => {
    const harness = await AgentHarness.open();
    expect([await harness.park(), await harness.park()]).toEqual([1, 2]);
    await harness.restart();
    expect(await harness.park()).toBe(3);
    const dir = harness.snapshot();
    expect(await harness.park()).toBe(4);
    harness.dir = dir;
    await harness.start();
    expect(await harness.park()).toBeGreaterThan(4);
  });
});

describe("the list of tools", () => {
  it("is ordered by app and name", async () => {
    const harness = await AgentHarness.open();
    const b = buildDeclaration("b", "read", { type: "object" });
    const a = buildDeclaration("a", "write", { type: "object" });
    harness.registry.set([
      { appId: "org.example.a", name: "A", isActivatable: false, tools: [b, a] },
      ...harness.registry.apps(),
    ]);
    expect(harness.agent.listTools().map(({ app_id, name }) => `${app_id}/${name}`)).toEqual([
      "org.example.a/a",
      "org.example.a/b",
      `${NOTES}/create`,
      `${NOTES}/delete`,
      `${NOTES}/list`,
      `${NOTES}/star`,
    ]);
    expect(harness.agent.listTools()[2]).toEqual({
      app_id: NOTES,
      name: "create",
      tier: "write",
      description: "Does create.",
      undoable: true,
    });
  });

  it("marks the tools that the user has disabled", async () => {
    const harness = await AgentHarness.open();
    const listDisabled = () =>
      harness.agent.listTools().flatMap(({ name, disabled }) => (disabled ? [name] : []));
    expect(listDisabled()).toEqual([]);
    harness.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    expect(listDisabled()).toEqual(["create"]);
    harness.rules = { ...permissiveRules, disabledApps: new Set([NOTES]) };
    expect(listDisabled()).toEqual(["create", "delete", "list", "star"]);
  });
});
