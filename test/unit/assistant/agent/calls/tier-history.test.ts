import { describe, expect, it } from "vitest";
import type { Tier } from "../../../../../src/assistant/agent/port.ts";
import {
  AgentHarness,
  buildDeclaration,
  NOTES,
  notesTools,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

/** Declares the tool `delete` of the notes app with this tier. */
function declare(harness: AgentHarness, tier: Tier): void {
  const tools = notesTools.map((tool) =>
    tool.name === "delete" ? buildDeclaration("delete", tier, tool.inputSchema) : tool,
  );
  harness.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
}

const requestDeletion = (harness: AgentHarness) => harness.request("delete", { id: "n1" });

describe("a tool whose manifest lowers its tier", () => {
  it("is not called until the user has approved exactly the new declaration", async () => {
    const harness = await AgentHarness.open();
    declare(harness, "read");
    const answer = await requestDeletion(harness);
    expect(answer).toMatchObject({
      disposition: "denied",
      detail: { code: "manifest_changed", tier: "read", ledger: { seq: expect.any(Number) } },
    });
    expect(answer.detail.message).toContain(
      "declares delete as read, and declared it as destructive",
    );
    expect(harness.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.result:manifest_changed",
    ]);
    expect(harness.received).toBe(0);

    const digest = String(answer.detail.digest);
    const approve = (given: string, caller = userCaller()) =>
      harness.agent.approveTool(NOTES, "delete", given, caller);
    await expect(approve(digest, sandboxedCaller("org.x"))).rejects.toMatchObject({
      code: "forbidden",
    });
    await expect(approve("0".repeat(64))).rejects.toMatchObject({ code: "not_found" });
    expect((await requestDeletion(harness)).disposition).toBe("denied");

    await approve(digest);
    await requestDeletion(harness);
    expect(harness.received).toBe(1);
    await harness.restart();
    await requestDeletion(harness);
    expect(harness.received).toBe(2);

    declare(harness, "write");
    declare(harness, "read");
    expect((await requestDeletion(harness)).detail.code).toBe("manifest_changed");
  });

  it("is approved once: an approval that changes nothing is not recorded", async () => {
    const harness = await AgentHarness.open();
    declare(harness, "read");
    const digest = String((await requestDeletion(harness)).detail.digest);
    const approve = () => harness.agent.approveTool(NOTES, "delete", digest, userCaller());
    await approve();
    await approve();
    const approvals = harness.ledger.entries.filter(({ name }) => name === "agent.tool.approve");
    expect(approvals).toHaveLength(1);
  });

  it("is recognised if the manifest had a higher tier while an approval was recorded", async () => {
    const harness = await AgentHarness.open();
    declare(harness, "read");
    const digest = String((await requestDeletion(harness)).detail.digest);
    harness.ledger.onCommit = () => declare(harness, "destructive");
    await harness.agent.approveTool(NOTES, "delete", digest, userCaller());
    harness.ledger.onCommit = () => {};
    declare(harness, "write");
    expect((await requestDeletion(harness)).detail.code).toBe("manifest_changed");
  });

  it("is recognised if the manifest changed while the agent was not running", async () => {
    const harness = await AgentHarness.open();
    await harness.agent[Symbol.asyncDispose]();
    declare(harness, "write");
    await harness.start();
    expect((await requestDeletion(harness)).detail.code).toBe("manifest_changed");
  });

  it("is recognised if its app was removed meanwhile", async () => {
    const harness = await AgentHarness.open();
    harness.registry.set([]);
    declare(harness, "read");
    expect((await requestDeletion(harness)).detail.code).toBe("manifest_changed");
  });

  it("is called as before if the old tier is declared again", async () => {
    const harness = await AgentHarness.open();
    declare(harness, "read");
    await requestDeletion(harness);
    declare(harness, "destructive");
    expect((await requestDeletion(harness)).disposition).toBe("confirm-modal");
  });
});

it("a higher tier of a tool applies at once", async () => {
  const harness = await AgentHarness.open();
  const list = buildDeclaration("list", "write", { type: "object", additionalProperties: false });
  const tools = notesTools.map((tool) => (tool.name === "list" ? list : tool));
  harness.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
  expect((await harness.request("list", {})).disposition).toBe("confirm-chip");
});
