import { describe, expect, it } from "vitest";
import { AgentHarness, sandboxedCaller, userCaller } from "../../../../support/agent-harness.ts";

const other = userCaller(":1.2");

describe("the list of calls that wait for confirmation", () => {
  it("has the same specs as the confirmation requests, oldest first", async () => {
    const harness = await AgentHarness.open();
    await harness.park("create", { title: "a" });
    await harness.park("delete", { id: "n1" }, other);
    await harness.request("list", {});
    expect(harness.agent.listParked(userCaller(":1.3"))).toEqual(
      harness.confirmationRequests.map(({ spec }) => spec),
    );
    expect(harness.agent.listParked(userCaller(":1.3")).map(({ tool }) => tool)).toEqual([
      "create",
      "delete",
    ]);
  });

  it("leaves out calls that are answered, running or expired", async () => {
    const harness = await AgentHarness.open();
    const [declined, run] = [await harness.park(), await harness.park()];
    await harness.agent.confirm(declined, false, other);
    const running = harness.agent.confirm(run, true, other);
    expect(harness.agent.listParked(userCaller())).toEqual([]);
    await running;
    expect(harness.agent.listParked(userCaller())).toEqual([]);
    await harness.park();
    // No timer ran while the machine slept, but expired calls must not be listed.
    harness.sleptMs = 300_000;
    expect(harness.agent.listParked(userCaller())).toEqual([]);
  });

  it("contains a call whose confirmation the ledger rejected", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.ledger.mode = "down";
    expect(await harness.agent.confirm(callId, true, other)).toMatchObject({ status: "failed" });
    expect(harness.agent.listParked(userCaller()).map(({ call_id: id }) => id)).toEqual([callId]);
  });

  it("shows a sandboxed app only its own calls, from all of its connections", async () => {
    const harness = await AgentHarness.open();
    const own = await harness.park("create", { title: "a" }, sandboxedCaller("org.a", ":1.9"));
    await harness.park("create", { title: "b" }, sandboxedCaller("org.b", ":1.8"));
    await harness.park("create", { title: "c" }, userCaller());
    const seen = harness.agent.listParked(sandboxedCaller("org.a", ":1.7"));
    expect(seen.map(({ call_id: id }) => id)).toEqual([own]);
    expect(harness.agent.listParked(sandboxedCaller("org.c"))).toEqual([]);
    expect(harness.agent.listParked(userCaller(":1.2"))).toHaveLength(3);
  });

  it("fits into one message, however large the arguments are", async () => {
    const harness = await AgentHarness.open();
    const body = "x".repeat(1_000_000);
    const ids: number[] = [];
    for (let count = 0; count < 8; count += 1)
      ids.push(await harness.park("create", { title: "a", body }, userCaller(`:1.${count}`)));
    const seen = harness.agent.listParked(userCaller()).map(({ call_id: id }) => id);
    expect(seen).toEqual(ids.slice(0, 4));
    await harness.agent.confirm(ids[0] ?? 0, false, userCaller());
    expect(harness.agent.listParked(userCaller()).map(({ call_id: id }) => id)).toEqual(
      ids.slice(1, 5),
    );
  });
});
