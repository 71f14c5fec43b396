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

const faults = ["down", "torn"] as const;

describe.each(faults)("calls while the ledger is %s", (mode) => {
  it.each(["list", "star", "create", "none"])(
    "a call of the tool %s fails and has no effect",
    async (tool) => {
      const harness = await AgentHarness.open();
      harness.ledger.mode = mode;
      const answer = await harness.request(tool, tool === "list" ? {} : { title: "a" });
      expect(answer).toMatchObject({
        disposition: "failed",
        detail: { code: "ledger_unavailable" },
      });
      expect(answer.detail.ledger).toBeUndefined();
      expect(harness.app.received).toEqual([]);
      expect(harness.confirmationRequests).toEqual([]);
      harness.ledger.mode = "ok";
      expect(code(await harness.agent.confirm(answer.callId, true, userCaller()))).toMatch(
        /unknown_call|ledger_unavailable/,
      );
      expect(harness.app.received).toEqual([]);
    },
  );

  it("a confirmation has no effect, and the call can be confirmed later", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.ledger.mode = mode;
    const ends = await Promise.all([
      harness.agent.confirm(callId, true, userCaller()),
      harness.agent.confirm(callId, true, userCaller(":1.2")),
    ]);
    expect(ends.map(code)).toEqual(["ledger_unavailable", "ledger_unavailable"]);
    expect(code(await harness.agent.confirm(callId, true, userCaller()))).toBe(
      "ledger_unavailable",
    );
    expect(harness.app.received).toEqual([]);
    expect(harness.resolved).toEqual([]);
    harness.ledger.mode = "ok";
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(harness.app.received).toHaveLength(1);
  });

  it("a call whose confirmation failed can still be declined, and otherwise expires", async () => {
    const harness = await AgentHarness.open();
    const [first, second] = [await harness.park(), await harness.park()];
    harness.ledger.mode = mode;
    for (const callId of [first, second]) await harness.agent.confirm(callId, true, userCaller());
    expect(await harness.agent.confirm(first, false, userCaller())).toMatchObject({
      status: "denied",
      detail: { code: "declined" },
    });
    await harness.clock.advance(301_000);
    expect(harness.resolved.map(({ callId }) => callId)).toEqual([first, second]);
    expect(code(await harness.agent.confirm(second, true, userCaller()))).toBe("expired");
    harness.ledger.mode = "ok";
    await harness.clock.advance(120_000);
    expect(harness.ledger.entryNamesOfCall(first).at(-1)).toBe("call.declined");
    expect(harness.ledger.entryNamesOfCall(second).at(-1)).toBe("call.expired:expired");
    expect(harness.app.received).toEqual([]);
  });

  it("a result waits in the outbox until the ledger is back, even across a restart", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.apps.fault = (step) => {
      if (step === "call") harness.ledger.mode = mode;
    };
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(end.status).toBe("executed");
    harness.dir = harness.snapshot();
    harness.apps.fault = () => {};
    harness.ledger.mode = "ok";
    harness.ledger.restart();
    await harness.start();
    await harness.clock.advance(5_000);
    expect(harness.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.result:ok");
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "undone" });
  });

  it("no call is undone, and no attempt is counted", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    await harness.agent.confirm(callId, true, userCaller());
    harness.ledger.mode = mode;
    const failed = {
      status: "failed",
      error: { code: "ledger_unavailable" },
      attempts: 0,
      remaining: 1,
    };
    expect(await harness.agent.undo(userCaller())).toMatchObject(failed);
    expect(await harness.agent.undoSkip(callId, userCaller())).toMatchObject(failed);
    expect(harness.notes.size).toBe(1);
    harness.ledger.mode = "ok";
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "undone", attempts: 1 });
  });

  it("the agent starts, and later records the calls that it recovered", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.dir = harness.snapshot();
    harness.ledger.mode = mode;
    await harness.start();
    expect(code(await harness.agent.confirm(callId, true, userCaller()))).toBe("restarted");
    harness.ledger.mode = "ok";
    await harness.clock.advance(60_000);
    expect(harness.ledger.entryNamesOfCall(callId).at(-1)).toBe("call.expired:restarted");
  });
});

describe("a confirmed call that may no longer run", () => {
  it("is denied immediately while the ledger is down, and the denial is recorded later", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.rules = { ...permissiveRules, isPaused: true };
    harness.ledger.mode = "down";
    expect(code(await harness.agent.confirm(callId, true, userCaller()))).toBe("paused");
    harness.ledger.mode = "ok";
    await harness.clock.advance(5_000);
    expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.result:paused",
    ]);
  });
});

describe("calls with the real ledger", () => {
  it("all entries of a call can be read, and their proofs are valid", async () => {
    const harness = await AgentHarness.open();
    await harness.agent[Symbol.asyncDispose]();
    const ledger = await openLedger({
      dir: harness.dir,
      clock: systemClock,
      version: "0.0.0-test",
    });
    const agent = await Agent.open({
      registry: harness.registry,
      apps: harness.apps,
      ledger,
      rules: () => permissiveRules,
      discover: async () => [],
      discoverState: () => ({ v: 1, tools: 0, vectors: null }),
      dir: harness.dir,
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
    using offline = OfflineLedger.open(harness.dir);
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
