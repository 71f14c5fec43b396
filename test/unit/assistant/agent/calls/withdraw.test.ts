import { describe, expect, it } from "vitest";
import {
  AgentHarness,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

const other = userCaller(":1.2");

describe("withdrawing a call that waits for confirmation", () => {
  it("ends the call as declined, even if the requester may not confirm it", async () => {
    const harness = await AgentHarness.open();
    harness.rules = { ...permissiveRules, confirm: "strict" };
    await harness.agent.registerConfirmer(other);
    const chat = sandboxedCaller("org.example.chat");
    for (const caller of [userCaller(), chat]) {
      const callId = await harness.park("create", { title: "a" }, caller);
      const end = await harness.agent.withdraw(callId, caller);
      expect(end).toMatchObject({ status: "denied", detail: { code: "declined" } });
      expect(harness.ledger.entryNamesOfCall(callId)).toEqual([
        "call.requested",
        "call.parked",
        "call.declined",
      ]);
      expect(await harness.agent.withdraw(callId, caller)).toMatchObject({
        detail: { code: "declined", replayed: true },
      });
    }
    expect(harness.agent.listParked(userCaller())).toEqual([]);
    expect(harness.app.received).toEqual([]);
  });

  it("is possible on another connection of the same sandboxed app, and for no other caller", async () => {
    const harness = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const callId = await harness.park("create", { title: "a" }, chat);
    for (const stranger of [userCaller(), sandboxedCaller("org.example.mail")]) {
      await expect(harness.agent.withdraw(callId, stranger)).rejects.toMatchObject({
        code: "forbidden",
      });
    }
    const again = sandboxedCaller("org.example.chat", ":1.10");
    expect((await harness.agent.withdraw(callId, again)).detail.code).toBe("declined");
    const own = await harness.park();
    await expect(harness.agent.withdraw(own, other)).rejects.toMatchObject({ code: "forbidden" });
    expect(harness.agent.listParked(userCaller())).toHaveLength(1);
  });

  it("returns the result of an answer that is already being processed", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const [confirmed, withdrawn] = await Promise.all([
      harness.agent.confirm(callId, true, other),
      harness.agent.withdraw(callId, userCaller()),
    ]);
    expect(confirmed.status).toBe("executed");
    expect(withdrawn).toMatchObject({ status: "executed", detail: { replayed: true } });
  });

  it("ends the call if a concurrent answer could not be recorded", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.ledger.mode = "down";
    const [confirmed, withdrawn] = await Promise.all([
      harness.agent.confirm(callId, true, other),
      harness.agent.withdraw(callId, userCaller()),
    ]);
    expect(confirmed.detail.code).toBe("ledger_unavailable");
    expect(withdrawn.detail.code).toBe("declined");
    expect(harness.agent.listParked(userCaller())).toEqual([]);
    expect(harness.app.received).toEqual([]);
  });

  it("returns unknown_call if no call has the given id", async () => {
    const harness = await AgentHarness.open();
    expect((await harness.agent.withdraw(7, userCaller())).detail.code).toBe("unknown_call");
  });
});
