import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../../../src/assistant/agent/port.ts";
import {
  AgentHarness,
  buildDeclaration,
  NOTES,
  notesTools,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";

/** The notes app, whose `list` has another schema now. */
async function become(world: AgentHarness, inputSchema: JsonObject | undefined): Promise<void> {
  const tools = world.app.tools.filter(({ name }) => name !== "list");
  const list = { name: "list", answer: { kind: "result" } as const };
  await world.app.setTools(inputSchema ? [...tools, { ...list, inputSchema }] : tools);
}

const changed = { type: "object", properties: { all: { type: "boolean" } } };

describe("a tool whose app has another definition than its manifest", () => {
  it("is not called until a person has approved that definition, and no other", async () => {
    const world = await AgentHarness.open();
    await become(world, changed);
    const answer = await world.request("list", {});
    expect(answer).toMatchObject({ disposition: "denied", detail: { code: "manifest_changed" } });
    const digest = String(answer.detail.digest);
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(world.app.received).toEqual([]);
    await world.clock.settle();
    expect(world.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.dispatch",
      "call.result:manifest_changed",
    ]);

    await expect(
      world.agent.approveTool(NOTES, "list", digest, sandboxedCaller("org.x")),
    ).rejects.toMatchObject({
      code: "forbidden",
    });
    for (const [app, tool, name] of [
      [NOTES, "list", "0".repeat(64)],
      [NOTES, "none", digest],
      ["org.example.none", "list", digest],
      [NOTES, "create", digest],
    ] as const)
      await expect(world.agent.approveTool(app, tool, name, userCaller())).rejects.toMatchObject({
        code: "not_found",
      });

    await world.agent.approveTool(NOTES, "list", digest, userCaller());
    expect((await world.request("list", {})).disposition).toBe("executed");
    await world.restart();
    expect((await world.request("list", {})).disposition).toBe("executed");

    await become(world, { ...changed, required: ["all"] });
    const again = await world.request("list", {});
    expect(again.detail.code).toBe("manifest_changed");
    expect(again.detail.digest).not.toBe(digest);
    await expect(
      world.agent.approveTool(NOTES, "list", digest, userCaller()),
    ).rejects.toMatchObject({
      code: "not_found",
    });
    await become(world, changed);
    expect((await world.request("list", {})).detail.code).toBe("manifest_changed");
  });

  it("has to be approved anew where its manifest changes", async () => {
    const world = await AgentHarness.open();
    await become(world, changed);
    const { detail } = await world.request("list", {});
    await world.agent.approveTool(NOTES, "list", String(detail.digest), userCaller());
    const list = buildDeclaration("list", "read", { type: "object", maxProperties: 0 });
    const tools = [list, ...notesTools.filter(({ name }) => name !== "list")];
    world.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
    expect((await world.request("list", {})).detail.code).toBe("manifest_changed");
  });

  it("is the same where only words differ, or the order", async () => {
    const world = await AgentHarness.open();
    await become(world, {
      title: "List",
      $schema: "https://json-schema.org/draft/2020-12/schema",
      additionalProperties: false,
      type: "object",
    });
    expect((await world.request("list", {})).disposition).toBe("executed");
  });

  it("is unknown_tool where the app does not have it", async () => {
    const world = await AgentHarness.open();
    await become(world, undefined);
    expect(await world.request("list", {})).toMatchObject({
      disposition: "failed",
      detail: { code: "unknown_tool" },
    });
  });

  it("is refused where its schema is nested without end", async () => {
    const world = await AgentHarness.open();
    let deep: JsonObject = {};
    for (let level = 0; level < 50_000; level += 1) deep = { not: deep };
    await become(world, deep);
    expect(await world.request("list", {})).toMatchObject({
      disposition: "failed",
      detail: { code: "bad_result" },
    });
  });
});
