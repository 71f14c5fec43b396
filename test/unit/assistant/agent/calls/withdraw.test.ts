import { describe, expect, it } from "vitest";
import {
  AgentHarness,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

const other = userCaller(":1.2");

describe("a parked call that is taken back", () => {
  it("ends as declined, for whoever asked, also where they may not confirm", async () => {
    const world = await AgentHarness.open();
    world.rules = { ...permissiveRules, confirm: "strict" };
    world.agent.registerConfirmer(other);
    const chat = sandboxedCaller("org.example.chat");
    for (const caller of [userCaller(), chat]) {
      const callId = await world.park("create", { title: "a" }, caller);
      const end = await world.agent.withdraw(callId, caller);
      expect(end).toMatchObject({ status: "denied", detail: { code: "declined" } });
      expect(world.ledger.entryNamesOfCall(callId)).toEqual([
        "call.requested",
        "call.parked",
        "call.declined",
      ]);
      expect(await world.agent.withdraw(callId, caller)).toMatchObject({
        detail: { code: "declined", replayed: true },
      });
    }
    expect(world.agent.listParked(userCaller())).toEqual([]);
    expect(world.app.received).toEqual([]);
  });

  it("is taken back by another connection of the same sandboxed app, and by nobody else", async () => {
    const world = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const callId = await world.park("create", { title: "a" }, chat);
    for (const stranger of [userCaller(), sandboxedCaller("org.example.mail")]) {
      await expect(world.agent.withdraw(callId, stranger)).rejects.toMatchObject({
        code: "forbidden",
      });
    }
    const again = sandboxedCaller("org.example.chat", ":1.10");
    expect((await world.agent.withdraw(callId, again)).detail.code).toBe("declined");
    const own = await world.park();
    await expect(world.agent.withdraw(own, other)).rejects.toMatchObject({ code: "forbidden" });
    expect(world.agent.listParked(userCaller())).toHaveLength(1);
  });

  it("keeps the end that somebody else is giving it", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const [confirmed, withdrawn] = await Promise.all([
      world.agent.confirm(callId, true, other),
      world.agent.withdraw(callId, userCaller()),
    ]);
    expect(confirmed.status).toBe("executed");
    expect(withdrawn).toMatchObject({ status: "executed", detail: { replayed: true } });
  });

  it("does not wait on where the one who answered could not be heard", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.ledger.mode = "down";
    const [confirmed, withdrawn] = await Promise.all([
      world.agent.confirm(callId, true, other),
      world.agent.withdraw(callId, userCaller()),
    ]);
    expect(confirmed.detail.code).toBe("ledger_unavailable");
    expect(withdrawn.detail.code).toBe("declined");
    expect(world.agent.listParked(userCaller())).toEqual([]);
    expect(world.app.received).toEqual([]);
  });

  it("is unknown where there is none", async () => {
    const world = await AgentHarness.open();
    expect((await world.agent.withdraw(7, userCaller())).detail.code).toBe("unknown_call");
  });
});
