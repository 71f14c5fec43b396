import { describe, expect, it } from "vitest";
import {
  AssistantError,
  type AssistantErrorCode,
} from "../../../../../src/assistant/assistant-error.ts";
import type { GenerateRequest } from "../../../../../src/assistant/inference/service-port.ts";
import { NOTES, permissiveRules } from "../../../../support/agent-harness.ts";
import { AgentPassHarness, noToolAnswer } from "../../../../support/agent-pass-harness.ts";
import { accepted, forever, says } from "../../../../support/scripted-service.ts";

describe("a pass", () => {
  it("asks no model where no tool has to do with the wish", async () => {
    const world = await AgentPassHarness.open([["list", {}]], { discover: async () => [] });
    expect(await world.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(world.inference.requests).toEqual([]);
  });

  it("calls what the model chooses until it wants nothing more, and gives the results", async () => {
    const world = await AgentPassHarness.open([
      ["list", {}],
      ["create", { title: "Milk" }],
      noToolAnswer,
    ]);
    const outcome = await world.run({ model: "tiny" });
    expect(outcome).toEqual({
      isAvailable: true,
      calls: outcome.results.map(({ call }) => call),
      results: [
        {
          call: { call_id: expect.any(Number), app_id: NOTES, tool: "list", status: "executed" },
          text: '{"notes":[]}',
        },
        {
          call: { call_id: expect.any(Number), app_id: NOTES, tool: "create", status: "executed" },
          text: '{"id":"n1"}',
        },
      ],
    });
    expect(world.reportedCalls).toEqual(outcome.calls);
    expect(world.agentHarness.app.received).toEqual([
      { name: "list", args: {} },
      { name: "create", args: { title: "Milk" } },
    ]);
    expect(world.inference.requests).toHaveLength(3);
    for (const request of world.inference.requests) {
      expect(request).toMatchObject({
        model: "tiny",
        sampling: { temperature: 0 },
        priority: "interactive",
        isStreamed: false,
        guide: { kind: "json_schema" },
      });
      expect(request.maxTokens).toBeLessThanOrEqual(1_024);
    }
  });

  it("ends with the first step that wants nothing", async () => {
    const world = await AgentPassHarness.open([noToolAnswer]);
    expect(await world.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(world.inference.requests).toHaveLength(1);
  });

  it("takes five steps at most", async () => {
    const world = await AgentPassHarness.open(
      Array.from({ length: 9 }, (_, index) => ["create", { title: `note ${index}` }] as const),
    );
    expect((await world.run()).calls).toHaveLength(5);
    expect(world.inference.requests).toHaveLength(5);
  });

  it("does not make the same call twice in a row", async () => {
    const world = await AgentPassHarness.open([
      ["create", { title: "a", body: "b" }],
      ["create", { body: "b", title: "a" }],
      ["list", {}],
    ]);
    expect((await world.run()).calls.map(({ tool }) => tool)).toEqual(["create"]);
    expect(world.agentHarness.notes.size).toBe(1);
  });

  it("tells the model why a call failed, and lets it try once more", async () => {
    const world = await AgentPassHarness.open([
      ["create", { title: 7 }],
      ["create", { title: "seven" }],
    ]);
    const outcome = await world.run();
    expect(outcome.results.map(({ text }) => text)).toEqual([
      expect.stringContaining("invalid_args"),
      '{"id":"n1"}',
    ]);
    expect(world.prompts[1]).toContain("/title: must be string");
    // The agent's own words lead to no stricter question than the person's.
    expect(world.confirmationRequests.map(({ chain }) => chain)).toEqual([["user"]]);
  });

  it("gives up after two failures in a row", async () => {
    const world = await AgentPassHarness.open([
      ["create", { title: 1 }],
      ["create", { title: "one" }],
      ["delete", { id: "nobody" }],
      { text: "I would rather chat" },
      ["list", {}],
    ]);
    const outcome = await world.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["failed", "executed", "failed"]);
    expect(world.inference.requests).toHaveLength(4);
  });

  it("tells of refusals without a question, and goes on", async () => {
    const world = await AgentPassHarness.open([
      ["create", { title: "a" }],
      ["list", {}],
    ]);
    world.agentHarness.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/create`]) };
    const outcome = await world.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["denied", "executed"]);
    expect(outcome.results[0]?.text).toContain("tool_disabled");
    expect(world.confirmationRequests).toEqual([]);
  });

  it.each([
    "{",
    '{"tool":"org.example.notes/wipe","args":{}}',
    '{"tool":"create","args":{}}',
    "[]",
  ])("calls nothing for %s", async (text) => {
    const world = await AgentPassHarness.open([{ text }, { text }, ["list", {}]]);
    expect(await world.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(world.inference.requests).toHaveLength(2);
  });

  it("calls nothing for an answer that was cut off", async () => {
    const world = await AgentPassHarness.open();
    world.inference.script = (request) =>
      says(request, ['{"tool":"org.example.notes/list","args":{}}'], "length");
    expect((await world.run()).calls).toEqual([]);
    expect(world.prompts[1]).toContain("too long");
  });

  it("never chooses a tool that was not found", async () => {
    const found = { app_id: NOTES, name: "list", tier: "read", undoable: false } as const;
    const world = await AgentPassHarness.open(
      [
        ["delete", { id: "n1" }],
        ["list", {}],
      ],
      {
        discover: async () => [{ ...found, description: "" }],
      },
    );
    expect((await world.run()).calls.map(({ tool }) => tool)).toEqual(["list"]);
  });

  it("shows at most eight tools", async () => {
    const world = await AgentPassHarness.open();
    const tools = Array.from({ length: 12 }, (_, index) => ({
      name: `tool${index}`,
      title: "t",
      tier: "read" as const,
      description: `number ${index}`,
      inputSchema: { type: "object" },
      undo: undefined,
      digest: String(index),
    }));
    world.agentHarness.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
    await world.run();
    expect(world.prompts[0]?.match(/number \d+/g)).toHaveLength(8);
  });
});

/** A model that lists notes, and is not there after so many answers. */
function refusing(code: AssistantErrorCode, after = 0) {
  let asked = 0;
  return (request: GenerateRequest) => {
    asked += 1;
    if (asked > after) throw new AssistantError(code, "not now");
    return says(request, ['{"tool":"org.example.notes/list","args":{}}']);
  };
}

describe("without a local model", () => {
  it.each(["no_model", "model_unusable", "insufficient_memory", "unreachable"] as const)(
    "%s: there is no pass",
    async (code) => {
      const world = await AgentPassHarness.open();
      world.inference.script = refusing(code);
      expect(await world.run()).toEqual({ isAvailable: false, calls: [], results: [] });
    },
  );

  it("what has been called counts", async () => {
    const world = await AgentPassHarness.open();
    world.inference.script = refusing("no_model", 1);
    const outcome = await world.run();
    expect(outcome).toMatchObject({ isAvailable: true, calls: [{ tool: "list" }] });
    expect(outcome.results).toHaveLength(1);
  });

  it.each(["ledger_unavailable", "queue_full", "timeout", "engine_failed"] as const)(
    "%s is an error of the turn",
    async (code) => {
      const world = await AgentPassHarness.open();
      world.inference.script = refusing(code);
      await expect(world.run()).rejects.toMatchObject({ code });
    },
  );

  it("shows less where all of it is too long for the model, and then does without", async () => {
    const world = await AgentPassHarness.open();
    let refused = 0;
    world.inference.script = (request) => {
      if (world.prompts.at(-1)?.includes("word ".repeat(300)) !== true)
        return says(request, ["{}"]);
      refused += 1;
      throw new AssistantError("context_length_exceeded", "too long");
    };
    expect((await world.run({ context: "word ".repeat(900) })).isAvailable).toBe(true);
    expect(refused).toBeGreaterThan(0);
    world.inference.script = refusing("context_length_exceeded");
    expect((await world.run()).isAvailable).toBe(false);
  });
});

describe("a turn that ends", () => {
  it("before it begins asks nobody", async () => {
    const world = await AgentPassHarness.open([["list", {}]]);
    const reason = new Error("left");
    await expect(world.run({}, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(world.inference.requests).toEqual([]);
  });

  it("while the model thinks ends with its reason", async () => {
    const world = await AgentPassHarness.open();
    const leaving = new AbortController();
    world.inference.script = async function* (_, signal) {
      yield accepted;
      leaving.abort(new Error("left"));
      // As an engine may: the events just end.
      await forever(signal).catch(() => {});
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    expect(world.agentHarness.app.received).toEqual([]);
  });
});
