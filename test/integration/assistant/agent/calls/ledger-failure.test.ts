import { describe, expect, it } from "vitest";
import { Agent } from "../../../../../src/assistant/agent/calls/agent.ts";
import type { CallAnswer } from "../../../../../src/assistant/agent/port.ts";
import { openLedger } from "../../../../../src/assistant/ledger/ledger.ts";
import { OfflineLedger } from "../../../../../src/assistant/ledger/offline-ledger.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { AgentHarness, permissiveRules, userCaller } from "../../../../support/agent-harness.ts";

function code(answer: Pick<CallAnswer, "detail">): string {
  return answer.detail.code;
}

describe.each(["down", "torn"] as const)("while the ledger is %s", (mode) => {
  it.each(["list", "star", "create", "none"])("%s does not happen", async (tool) => {
    const world = await AgentHarness.open();
    world.ledger.mode = mode;
    const answer = await world.request(tool, tool === "list" ? {} : { title: "a" });
    expect(answer).toMatchObject({ disposition: "failed", detail: { code: "ledger_unavailable" } });
    expect(answer.detail.ledger).toBeUndefined();
    expect(world.app.received).toEqual([]);
    expect(world.confirmationRequests).toEqual([]);
    world.ledger.mode = "ok";
    expect(code(await world.agent.confirm(answer.callId, true, userCaller()))).toMatch(
      /unknown_call|ledger_unavailable/,
    );
    expect(world.app.received).toEqual([]);
  });

  it("a confirmation does nothing, and the call can be confirmed later", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.ledger.mode = mode;
    const ends = await Promise.all([
      world.agent.confirm(callId, true, userCaller()),
      world.agent.confirm(callId, true, userCaller(":1.2")),
    ]);
    expect(ends.map(code)).toEqual(["ledger_unavailable", "ledger_unavailable"]);
    expect(code(await world.agent.confirm(callId, true, userCaller()))).toBe("ledger_unavailable");
    expect(world.app.received).toEqual([]);
    expect(world.resolved).toEqual([]);
    world.ledger.mode = "ok";
    expect((await world.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(world.app.received).toHaveLength(1);
  });

  it("what was confirmed in vain can still be declined, and expires", async () => {
    const world = await AgentHarness.open();
    const [first, second] = [await world.park(), await world.park()];
    world.ledger.mode = mode;
    for (const callId of [first, second]) await world.agent.confirm(callId, true, userCaller());
    expect(await world.agent.confirm(first, false, userCaller())).toMatchObject({
      status: "denied",
      detail: { code: "declined" },
    });
    await world.clock.advance(301_000);
    expect(world.resolved.map(({ callId }) => callId)).toEqual([first, second]);
    expect(code(await world.agent.confirm(second, true, userCaller()))).toBe("expired");
    world.ledger.mode = "ok";
    await world.clock.advance(120_000);
    expect(world.ledger.entryNamesOfCall(first).at(-1)).toBe("call.declined");
    expect(world.ledger.entryNamesOfCall(second).at(-1)).toBe("call.expired:expired");
    expect(world.app.received).toEqual([]);
  });

  it("a result is owed to it, across a restart too", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.apps.fault = (step) => {
      if (step === "call") world.ledger.mode = mode;
    };
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(end.status).toBe("executed");
    world.dir = world.snapshot();
    world.apps.fault = () => {};
    world.ledger.mode = "ok";
    world.ledger.restart();
    await world.start();
    await world.clock.advance(5_000);
    expect(world.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.result:ok");
    expect((await world.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone" });
  });

  it("nothing is undone, and no attempt is counted", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    await world.agent.confirm(callId, true, userCaller());
    world.ledger.mode = mode;
    const failed = {
      status: "failed",
      error: { code: "ledger_unavailable" },
      attempts: 0,
      remaining: 1,
    };
    expect(await world.agent.undo(userCaller())).toMatchObject(failed);
    expect(await world.agent.undoSkip(callId, userCaller())).toMatchObject(failed);
    expect(world.notes.size).toBe(1);
    world.ledger.mode = "ok";
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone", attempts: 1 });
  });

  it("the agent starts, and says later what it found", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.dir = world.snapshot();
    world.ledger.mode = mode;
    await world.start();
    expect(code(await world.agent.confirm(callId, true, userCaller()))).toBe("restarted");
    world.ledger.mode = "ok";
    await world.clock.advance(60_000);
    expect(world.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.expired:restarted");
  });
});

describe("a call that may not run any more", () => {
  it("is denied though the ledger is down", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.rules = { ...permissiveRules, isPaused: true };
    world.ledger.mode = "down";
    expect(code(await world.agent.confirm(callId, true, userCaller()))).toBe("paused");
    world.ledger.mode = "ok";
    await world.clock.advance(5_000);
    expect(world.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.result:paused",
    ]);
  });
});

describe("on the real ledger", () => {
  it("a whole life can be read, and is proven", async () => {
    const world = await AgentHarness.open();
    await world.agent[Symbol.asyncDispose]();
    const ledger = await openLedger({ dir: world.dir, clock: systemClock, version: "0.0.0-test" });
    const agent = await Agent.open({
      registry: world.registry,
      apps: world.apps,
      ledger,
      rules: () => permissiveRules,
      discover: async () => [],
      dir: world.dir,
      clock: systemClock,
      logger: silentLogger,
    });
    const request = { appId: "org.example.notes", actor: undefined, provenance: ["user"] };
    const signal = new AbortController().signal;
    const argsJson = '{"title":"a fraction","body":"0.5"}';
    const { callId } = await agent.requestCall(
      { ...request, tool: "create", argsJson },
      userCaller(),
      signal,
    );
    await agent.confirm(callId, true, userCaller());
    await agent.undo(userCaller());
    await agent.requestCall({ ...request, tool: "list", argsJson: "{}" }, userCaller(), signal);
    await agent[Symbol.asyncDispose]();
    await ledger[Symbol.asyncDispose]();
    using offline = OfflineLedger.open(world.dir);
    expect(offline.verify([]).status).toBe("whole");
    const names = offline.tail(20).map(({ body }) => body.name);
    expect(names).toEqual([
      "ledger.opened",
      "agent.call.requested",
      "agent.call.parked",
      "agent.call.confirmed",
      "agent.call.dispatch",
      "agent.call.result",
      "agent.undo.dispatch",
      "agent.undo.result",
      "agent.call.requested",
      "agent.call.dispatch",
      "agent.call.result",
    ]);
  });
});
