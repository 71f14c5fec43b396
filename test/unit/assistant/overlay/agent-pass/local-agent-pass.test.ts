import { describe, expect, it } from "vitest";
import {
  AssistantError,
  type AssistantErrorCode,
} from "../../../../../src/assistant/assistant-error.ts";
import type { GenerateRequest } from "../../../../../src/assistant/inference/service-port.ts";
import { NOTES, permissiveRules } from "../../../../support/agent-harness.ts";
import { AgentPassHarness, noToolAnswer } from "../../../../support/agent-pass-harness.ts";
import { accepted, forever, says } from "../../../../support/scripted-service.ts";

describe("the agent pass, in which a local model chooses tool calls", () => {
  it("uses no model if no tool matches the request", async () => {
    const harness = await AgentPassHarness.open([["list", {}]], { discover: async () => [] });
    expect(await harness.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(harness.inference.requests).toEqual([]);
  });

  it("makes the calls that the model chooses until the model chooses none, and returns the results", async () => {
    const harness = await AgentPassHarness.open([
      ["list", {}],
      ["create", { title: "Milk" }],
      noToolAnswer,
    ]);
    const outcome = await harness.run({ model: "tiny" });
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
    expect(harness.reportedCalls).toEqual(outcome.calls);
    expect(harness.agentHarness.app.received).toEqual([
      { name: "list", args: {} },
      { name: "create", args: { title: "Milk" } },
    ]);
    expect(harness.inference.requests).toHaveLength(3);
    for (const request of harness.inference.requests) {
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

  it("ends after the first step if the model chooses no tool", async () => {
    const harness = await AgentPassHarness.open([noToolAnswer]);
    expect(await harness.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(harness.inference.requests).toHaveLength(1);
  });

  it("has at most five steps", async () => {
    const harness = await AgentPassHarness.open(
      Array.from({ length: 9 }, (_, index) => ["create", { title: `note ${index}` }] as const),
    );
    expect((await harness.run()).calls).toHaveLength(5);
    expect(harness.inference.requests).toHaveLength(5);
  });

  it("does not make the same call twice in a row", async () => {
    const harness = await AgentPassHarness.open([
      ["create", { title: "a", body: "b" }],
      ["create", { body: "b", title: "a" }],
      ["list", {}],
    ]);
    expect((await harness.run()).calls.map(({ tool }) => tool)).toEqual(["create"]);
    expect(harness.agentHarness.notes.size).toBe(1);
  });

  it("shows the model why a call failed, and lets it try again", async () => {
    const harness = await AgentPassHarness.open([
      ["create", { title: 7 }],
      ["create", { title: "seven" }],
    ]);
    const outcome = await harness.run();
    expect(outcome.results.map(({ text }) => text)).toEqual([
      expect.stringContaining("invalid_args"),
      '{"id":"n1"}',
    ]);
    expect(harness.prompts[1]).toContain("/title: must be string");
    // The error message comes from the agent itself and not from an app, so the next call needs no stricter
    // confirmation.
    expect(harness.confirmationRequests.map(({ chain }) => chain)).toEqual([["user"]]);
  });

  it("ends after two failures in a row", async () => {
    const harness = await AgentPassHarness.open([
      ["create", { title: 1 }],
      ["create", { title: "one" }],
      ["delete", { id: "nobody" }],
      { text: "I would rather chat" },
      ["list", {}],
    ]);
    const outcome = await harness.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["failed", "executed", "failed"]);
    expect(harness.inference.requests).toHaveLength(4);
  });

  it("reports to the model each call that was denied without a question to the user, and continues", async () => {
    const harness = await AgentPassHarness.open([
      ["create", { title: "a" }],
      ["list", {}],
    ]);
    harness.agentHarness.rules = {
      ...permissiveRules,
      disabledTools: new Set([`${NOTES}/create`]),
    };
    const outcome = await harness.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["denied", "executed"]);
    expect(outcome.results[0]?.text).toContain("tool_disabled");
    expect(harness.confirmationRequests).toEqual([]);
  });

  it.each([
    "{",
    '{"tool":"org.example.notes/wipe","args":{}}',
    '{"tool":"create","args":{}}',
    "[]",
  ])("makes no call for %s", async (text) => {
    const harness = await AgentPassHarness.open([{ text }, { text }, ["list", {}]]);
    expect(await harness.run()).toEqual({ isAvailable: true, calls: [], results: [] });
    expect(harness.inference.requests).toHaveLength(2);
  });

  it("makes no call for an answer that was cut off", async () => {
    const harness = await AgentPassHarness.open();
    harness.inference.script = (request) =>
      says(request, ['{"tool":"org.example.notes/list","args":{}}'], "length");
    expect((await harness.run()).calls).toEqual([]);
    expect(harness.prompts[1]).toContain("too long");
  });

  it("never calls a tool that was not a candidate", async () => {
    const found = { app_id: NOTES, name: "list", tier: "read", undoable: false } as const;
    const harness = await AgentPassHarness.open(
      [
        ["delete", { id: "n1" }],
        ["list", {}],
      ],
      {
        discover: async () => [{ ...found, description: "" }],
      },
    );
    expect((await harness.run()).calls.map(({ tool }) => tool)).toEqual(["list"]);
  });

  it("offers the model at most eight tools", async () => {
    const harness = await AgentPassHarness.open();
    const tools = Array.from({ length: 12 }, (_, index) => ({
      name: `tool${index}`,
      title: "t",
      tier: "read" as const,
      description: `number ${index}`,
      keywords: [],
      examples: [],
      inputSchema: { type: "object" },
      undo: undefined,
      digest: String(index),
    }));
    harness.agentHarness.registry.set([
      { appId: NOTES, name: "Notes", isActivatable: false, tools },
    ]);
    await harness.run();
    expect(harness.prompts[0]?.match(/number \d+/g)).toHaveLength(8);
  });
});

/** Returns the script of a model that chooses the tool `list` `after` times, and then fails with the code `code`. */
function failingModel(code: AssistantErrorCode, after = 0) {
  let asked = 0;
  return (request: GenerateRequest) => {
    asked += 1;
    if (asked > after) throw new AssistantError(code, "not now");
    return says(request, ['{"tool":"org.example.notes/list","args":{}}']);
  };
}

describe("an error of the local model", () => {
  it.each(["no_model", "model_unusable", "insufficient_memory", "unreachable"] as const)(
    "with the code %s makes the agent pass report that no model is available",
    async (code) => {
      const harness = await AgentPassHarness.open();
      harness.inference.script = failingModel(code);
      expect(await harness.run()).toEqual({ isAvailable: false, calls: [], results: [] });
    },
  );

  it("leaves the results of earlier calls in the outcome of the agent pass", async () => {
    const harness = await AgentPassHarness.open();
    harness.inference.script = failingModel("no_model", 1);
    const outcome = await harness.run();
    expect(outcome).toMatchObject({ isAvailable: true, calls: [{ tool: "list" }] });
    expect(outcome.results).toHaveLength(1);
  });

  it.each(["ledger_unavailable", "queue_full", "timeout", "engine_failed"] as const)(
    "with the code %s ends the turn",
    async (code) => {
      const harness = await AgentPassHarness.open();
      harness.inference.script = failingModel(code);
      await expect(harness.run()).rejects.toMatchObject({ code });
    },
  );

  it("about a too long prompt makes the agent pass shorten the prompt, and give up if that does not help", async () => {
    const harness = await AgentPassHarness.open();
    let refused = 0;
    harness.inference.script = (request) => {
      if (harness.prompts.at(-1)?.includes("word ".repeat(300)) !== true)
        return says(request, ["{}"]);
      refused += 1;
      throw new AssistantError("context_length_exceeded", "too long");
    };
    expect((await harness.run({ context: "word ".repeat(900) })).isAvailable).toBe(true);
    expect(refused).toBeGreaterThan(0);
    harness.inference.script = failingModel("context_length_exceeded");
    expect((await harness.run()).isAvailable).toBe(false);
  });
});

describe("the agent pass of an aborted turn", () => {
  it("calls no model if the turn is aborted before the pass begins", async () => {
    const harness = await AgentPassHarness.open([["list", {}]]);
    const reason = new Error("left");
    await expect(harness.run({}, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(harness.inference.requests).toEqual([]);
  });

  it("ends with the abort reason while the model generates", async () => {
    const harness = await AgentPassHarness.open();
    const leaving = new AbortController();
    harness.inference.script = async function* (_, signal) {
      yield accepted;
      leaving.abort(new Error("left"));
      // An aborted engine may end its events without an error; the agent pass must still fail with the abort reason.
      await forever(signal).catch(() => {});
    };
    await expect(harness.run({}, leaving.signal)).rejects.toThrow("left");
    expect(harness.agentHarness.app.received).toEqual([]);
  });
});
