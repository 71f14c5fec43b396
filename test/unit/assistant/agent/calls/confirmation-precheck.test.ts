import { describe, expect, it } from "vitest";
import { AgentHarness, notesTools } from "../../../../support/agent-harness.ts";

/** A prompt would be useless if the agent already knows that the call is impossible. */
describe("the check of a call before the user is asked", () => {
  it("prevents the prompt if the app is not running and cannot be started", async () => {
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

  it("prevents the prompt if the connected app has another definition of the tool", async () => {
    const harness = await AgentHarness.open();
    // The first call opens the connection to the app, from which the check gets the definition later.
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

  it("allows the prompt if the definition is unknown, and does not connect to the app", async () => {
    const harness = await AgentHarness.open();
    expect((await harness.request("create", { title: "a" })).disposition).toBe("confirm-chip");
    expect(harness.apps.isConnected(harness.app.address.appId)).toBe(false);
    expect(harness.confirmationRequests).toHaveLength(1);
  });
});
