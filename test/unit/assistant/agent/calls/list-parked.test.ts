import { describe, expect, it } from "vitest";
import { AgentHarness, sandboxedCaller, userCaller } from "../../../../support/agent-harness.ts";

const other = userCaller(":1.2");

describe("the calls that wait", () => {
  it("are told oldest first, as everybody was asked about them", async () => {
    const world = await AgentHarness.open();
    await world.park("create", { title: "a" });
    await world.park("delete", { id: "n1" }, other);
    await world.request("list", {});
    expect(world.agent.listParked(userCaller(":1.3"))).toEqual(
      world.confirmationRequests.map(({ spec }) => spec),
    );
    expect(world.agent.listParked(userCaller(":1.3")).map(({ tool }) => tool)).toEqual([
      "create",
      "delete",
    ]);
  });

  it("wait no more when they are answered, while they run, and when their time is up", async () => {
    const world = await AgentHarness.open();
    const [declined, run] = [await world.park(), await world.park()];
    await world.agent.confirm(declined, false, other);
    const running = world.agent.confirm(run, true, other);
    expect(world.agent.listParked(userCaller())).toEqual([]);
    await running;
    expect(world.agent.listParked(userCaller())).toEqual([]);
    await world.park();
    // Asleep no timer has run yet; nobody is to be asked in vain all the same.
    world.sleptMs = 300_000;
    expect(world.agent.listParked(userCaller())).toEqual([]);
  });

  it("wait on where the ledger did not take that they are confirmed", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.ledger.mode = "down";
    expect(await world.agent.confirm(callId, true, other)).toMatchObject({ status: "failed" });
    expect(world.agent.listParked(userCaller()).map(({ call_id: id }) => id)).toEqual([callId]);
  });

  it("are a sandboxed app's own only, on whichever connection it asked", async () => {
    const world = await AgentHarness.open();
    const own = await world.park("create", { title: "a" }, sandboxedCaller("org.a", ":1.9"));
    await world.park("create", { title: "b" }, sandboxedCaller("org.b", ":1.8"));
    await world.park("create", { title: "c" }, userCaller());
    const seen = world.agent.listParked(sandboxedCaller("org.a", ":1.7"));
    expect(seen.map(({ call_id: id }) => id)).toEqual([own]);
    expect(world.agent.listParked(sandboxedCaller("org.c"))).toEqual([]);
    expect(world.agent.listParked(userCaller(":1.2"))).toHaveLength(3);
  });

  it("fit into one message, however large their arguments are", async () => {
    const world = await AgentHarness.open();
    const body = "x".repeat(1_000_000);
    const ids: number[] = [];
    for (let count = 0; count < 8; count += 1)
      ids.push(await world.park("create", { title: "a", body }, userCaller(`:1.${count}`)));
    const seen = world.agent.listParked(userCaller()).map(({ call_id: id }) => id);
    expect(seen).toEqual(ids.slice(0, 4));
    await world.agent.confirm(ids[0] ?? 0, false, userCaller());
    expect(world.agent.listParked(userCaller()).map(({ call_id: id }) => id)).toEqual(
      ids.slice(1, 5),
    );
  });
});
