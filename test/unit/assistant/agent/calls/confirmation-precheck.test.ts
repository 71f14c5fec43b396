import { describe, expect, it } from "vitest";
import { AgentHarness, notesTools } from "../../../../support/agent-harness.ts";

/** It would be useless to ask the user for confirmation of a call that the agent knows to be impossible. */
describe("the check of a call before the user is asked for confirmation", () => {
  it("prevents the question if the app is not running and cannot be started", async () => {
    const harness = await AgentHarness.open();
    harness.registry.set([
      { appId: "org.example.Gone", name: "Gone", isActivatable: false, tools: notesTools },
    ]);
    const request = { appId: "org.example.Gone", tool: "create", argsJson: '{"title":"a"}' };
    const answer = await harness.agent.requestCall(
      { ...request, actor: undefined, provenance: ["user"] },
      { connection: ":1.1", pid: 1, app: undefined },
      new AbortController().signal,
    );
    expect(answer).toMatchObject({
      disposition: "failed",
      detail: { code: "app_unavailable", ledger: { seq: expect.any(Number) } },
    });
    expect(harness.confirmationRequests).toEqual([]);
    expect(harness.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.result:app_unavailable",
    ]);
  });

  it("prevents the question if the app has crashed and cannot be started", async () => {
    const harness = await AgentHarness.open();
    await harness.app.die();
    const answer = await harness.request("create", { title: "a" });
    expect(answer).toMatchObject({ disposition: "failed", detail: { code: "app_unavailable" } });
    expect(harness.confirmationRequests).toEqual([]);
  });

  it("prevents the question if the connected app has another definition of the tool than its manifest", async () => {
    const harness = await AgentHarness.open();
    // The first call opens the connection to the app. Through it, the check learns the app's definition of the tool.
    expect((await harness.request("list", {})).disposition).toBe("executed");
    const create = harness.app.tools.find(({ name }) => name === "create");
    if (!create) throw new Error("the notes app has no such tool");
    const others = harness.app.tools.filter((tool) => tool !== create);
    await harness.app.setTools([...others, { ...create, inputSchema: { type: "object" } }]);
    const answer = await harness.request("create", { title: "a" });
    expect(answer).toMatchObject({
      disposition: "denied",
      detail: { code: "manifest_changed", digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(harness.confirmationRequests).toEqual([]);
    expect(harness.received).toBe(1);
  });

  it("allows the question if the app is not connected, and does not connect to it", async () => {
    const harness = await AgentHarness.open();
    expect((await harness.request("create", { title: "a" })).disposition).toBe("confirm-chip");
    expect(harness.apps.isConnected(harness.app.address.appId)).toBe(false);
    expect(harness.confirmationRequests).toHaveLength(1);
  });
});
