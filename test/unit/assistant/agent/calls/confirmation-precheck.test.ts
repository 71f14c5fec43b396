import { describe, expect, it } from "vitest";
import { AgentHarness, notesTools } from "../../../../support/agent-harness.ts";

/** What a person is asked about has to be able to happen, as far as that can be known. */
describe("a call that cannot run", () => {
  it("prompts nobody where its app is not there, and nothing can start it", async () => {
    const world = await AgentHarness.open();
    world.registry.set([
      { appId: "org.example.Gone", name: "Gone", isActivatable: false, tools: notesTools },
    ]);
    const request = { appId: "org.example.Gone", tool: "create", argsJson: '{"title":"a"}' };
    const answer = await world.agent.requestCall(
      { ...request, actor: undefined, provenance: ["user"] },
      { connection: ":1.1", pid: 1, app: undefined },
      new AbortController().signal,
    );
    expect(answer).toMatchObject({
      disposition: "failed",
      detail: { code: "app_unavailable", ledger: { seq: expect.any(Number) } },
    });
    expect(world.confirmationRequests).toEqual([]);
    expect(world.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.result:app_unavailable",
    ]);
  });

  it("prompts nobody where the app is known to have another definition", async () => {
    const world = await AgentHarness.open();
    // Something that makes the connection.
    expect((await world.request("list", {})).disposition).toBe("executed");
    const create = world.app.tools.find(({ name }) => name === "create");
    if (!create) throw new Error("the notes app has no such tool");
    const others = world.app.tools.filter((tool) => tool !== create);
    await world.app.setTools([...others, { ...create, inputSchema: { type: "object" } }]);
    const answer = await world.request("create", { title: "a" });
    expect(answer).toMatchObject({
      disposition: "denied",
      detail: { code: "manifest_changed", digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(world.confirmationRequests).toEqual([]);
    expect(world.received).toBe(1);
  });

  it("prompts where that is not known, without reaching for the app", async () => {
    const world = await AgentHarness.open();
    expect((await world.request("create", { title: "a" })).disposition).toBe("confirm-chip");
    expect(world.apps.isConnected(world.app.address.appId)).toBe(false);
    expect(world.confirmationRequests).toHaveLength(1);
  });
});
