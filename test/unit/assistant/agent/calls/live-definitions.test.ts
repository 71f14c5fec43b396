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

/** Changes the schema of the tool `list` in the notes app. */
async function setListSchema(
  harness: AgentHarness,
  inputSchema: JsonObject | undefined,
): Promise<void> {
  const tools = harness.app.tools.filter(({ name }) => name !== "list");
  const list = { name: "list", answer: { kind: "result" } as const };
  await harness.app.setTools(inputSchema ? [...tools, { ...list, inputSchema }] : tools);
}

interface Texts {
  readonly title?: string;
  readonly description?: string;
}

/** Gives the tool `list` these texts in the manifest and in the running app. */
async function declareList(harness: AgentHarness, declared: Texts, live: Texts): Promise<void> {
  const tools = notesTools.map((tool) => (tool.name === "list" ? { ...tool, ...declared } : tool));
  harness.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
  await harness.app.setTools(
    harness.app.tools.map(({ name, inputSchema, answer, ...texts }) =>
      name === "list"
        ? { name, inputSchema, answer, ...live }
        : { name, inputSchema, answer, ...texts },
    ),
  );
}

const changed = { type: "object", properties: { all: { type: "boolean" } } };

describe("a tool whose live definition differs from its manifest", () => {
  it("is not called until the user has approved exactly the live definition", async () => {
    const harness = await AgentHarness.open();
    await setListSchema(harness, changed);
    const answer = await harness.request("list", {});
    expect(answer).toMatchObject({ disposition: "denied", detail: { code: "manifest_changed" } });
    const digest = String(answer.detail.digest);
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(harness.app.received).toEqual([]);
    await harness.clock.settle();
    expect(harness.ledger.entryNamesOfCall(answer.callId)).toEqual([
      "call.requested",
      "call.dispatch",
      "call.result:manifest_changed",
    ]);

    await expect(
      harness.agent.approveTool(NOTES, "list", digest, sandboxedCaller("org.x")),
    ).rejects.toMatchObject({
      code: "forbidden",
    });
    for (const [app, tool, name] of [
      [NOTES, "list", "0".repeat(64)],
      [NOTES, "none", digest],
      ["org.example.none", "list", digest],
      [NOTES, "create", digest],
    ] as const)
      await expect(harness.agent.approveTool(app, tool, name, userCaller())).rejects.toMatchObject({
        code: "not_found",
      });

    const approvals = () =>
      harness.ledger.entries.filter(({ name }) => name === "agent.tool.approve");
    harness.ledger.mode = "down";
    await expect(
      harness.agent.approveTool(NOTES, "list", digest, userCaller()),
    ).rejects.toMatchObject({ code: "ledger_unavailable" });
    harness.ledger.mode = "ok";
    expect(approvals()).toEqual([]);
    expect((await harness.request("list", {})).detail.code).toBe("manifest_changed");

    await harness.agent.approveTool(NOTES, "list", digest, userCaller());
    await harness.agent.approveTool(NOTES, "list", digest, userCaller());
    expect(approvals()).toMatchObject([
      { fields: { app: NOTES, tool: "list", digest, by: { connection: ":1.1" } } },
    ]);
    expect((await harness.request("list", {})).disposition).toBe("executed");
    await harness.restart();
    expect((await harness.request("list", {})).disposition).toBe("executed");

    await setListSchema(harness, { ...changed, required: ["all"] });
    const again = await harness.request("list", {});
    expect(again.detail.code).toBe("manifest_changed");
    expect(again.detail.digest).not.toBe(digest);
    await expect(
      harness.agent.approveTool(NOTES, "list", digest, userCaller()),
    ).rejects.toMatchObject({
      code: "not_found",
    });
    await setListSchema(harness, changed);
    expect((await harness.request("list", {})).detail.code).toBe("manifest_changed");
  });

  it("must be approved again if its manifest changes", async () => {
    const harness = await AgentHarness.open();
    await setListSchema(harness, changed);
    const { detail } = await harness.request("list", {});
    await harness.agent.approveTool(NOTES, "list", String(detail.digest), userCaller());
    const list = buildDeclaration("list", "read", { type: "object", maxProperties: 0 });
    const tools = [list, ...notesTools.filter(({ name }) => name !== "list")];
    harness.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
    expect((await harness.request("list", {})).detail.code).toBe("manifest_changed");
  });

  it("may run if its arguments differ only in annotations and in the order of keys", async () => {
    const harness = await AgentHarness.open();
    await setListSchema(harness, {
      title: "listArguments",
      $schema: "https://json-schema.org/draft/2020-12/schema",
      properties: {},
      additionalProperties: false,
      type: "object",
    });
    expect((await harness.request("list", {})).disposition).toBe("executed");
  });

  it.each([
    ["title", { title: "Show notes" }, { title: "Delete everything" }],
    ["description", { description: "Lists the notes." }, { description: "Deletes the notes." }],
  ])("is not called if its %s differs from the declared one", async (part, declared, live) => {
    const harness = await AgentHarness.open();
    await declareList(harness, declared, live);
    const answer = await harness.request("list", {});
    expect(answer.detail.code).toBe("manifest_changed");
    expect(answer.detail.message).toContain(`differ in the ${part} of list`);
    expect(harness.received).toBe(0);
    await harness.agent.approveTool(NOTES, "list", String(answer.detail.digest), userCaller());
    expect((await harness.request("list", {})).disposition).toBe("executed");
    await declareList(harness, declared, { ...live, [part]: "Something else" });
    expect((await harness.request("list", {})).detail.code).toBe("manifest_changed");
  });

  it.each([
    [
      "the manifest declares no text",
      { title: "list", description: "" },
      { title: "a", description: "b" },
    ],
    ["the app has no text", { title: "Show", description: "Lists." }, {}],
    [
      "only white space differs",
      { title: "Show", description: "Lists the notes.\nAll of them." },
      { title: "Show", description: "\n    Lists the notes.\n    All of them.\n    " },
    ],
  ])("may run if the difference is harmless: %s", async (_, declared, live) => {
    const harness = await AgentHarness.open();
    await declareList(harness, declared, live);
    expect((await harness.request("list", {})).disposition).toBe("executed");
  });

  it("fails with unknown_tool if the app no longer has the tool", async () => {
    const harness = await AgentHarness.open();
    await setListSchema(harness, undefined);
    expect(await harness.request("list", {})).toMatchObject({
      disposition: "failed",
      detail: { code: "unknown_tool" },
    });
  });

  it("is refused if its schema is nested too deeply", async () => {
    const harness = await AgentHarness.open();
    let deep: JsonObject = {};
    for (let level = 0; level < 50_000; level += 1) deep = { not: deep };
    await setListSchema(harness, deep);
    expect(await harness.request("list", {})).toMatchObject({
      disposition: "failed",
      detail: { code: "bad_result" },
    });
  });
});
