import { describe, expect, it } from "vitest";
import { buildDiffRows } from "../../../../../src/assistant/agent/calls/confirmation-spec.ts";
import {
  AgentHarness,
  NOTES,
  notesTools,
  sandboxedCaller,
} from "../../../../support/agent-harness.ts";

describe("the spec of a confirmation", () => {
  it("has a row for each argument, in the order of the schema, and then for undeclared arguments", () => {
    const schema = {
      properties: { b: { title: "Second" }, a: { title: "" }, "c/d": true, none: {} },
    };
    const args = { z: null, a: 1, "c/d": [1], b: "x", constructor: { y: 1 }, t: true };
    expect(buildDiffRows(schema, args)).toEqual([
      { path: "/b", label: "Second", type: "string", value: "x" },
      { path: "/a", label: "a", type: "number", value: 1 },
      { path: "/c~1d", label: "c/d", type: "array", value: [1] },
      { path: "/z", label: "z", type: "null", value: null },
      { path: "/constructor", label: "constructor", type: "object", value: { y: 1 } },
      { path: "/t", label: "t", type: "boolean", value: true },
    ]);
  });

  it("describes the app, the tool, the arguments, the tier, the provenance chain, the undo and the caller", async () => {
    const harness = await AgentHarness.open();
    const caller = sandboxedCaller("org.example.chat");
    const answer = await harness.request("create", ' {"title": "x", "body": "y"}', {
      caller,
      actor: "Chat\u202e\nBot",
    });
    expect(answer.disposition).toBe("confirm-modal");
    const [asked] = harness.confirmationRequests;
    expect(asked).toEqual({
      callId: answer.callId,
      spec: {
        v: 1,
        call_id: answer.callId,
        app_id: NOTES,
        app_name: "Notes",
        tool: "create",
        title: "create",
        description: "Does create.",
        args: { title: "x", body: "y" },
        tiers: { declared: "write", effective: "destructive" },
        chain: ["user", "app:org.example.chat"],
        diff: [
          { path: "/title", label: "Title", type: "string", value: "x" },
          { path: "/body", label: "body", type: "string", value: "y" },
        ],
        undo: "delete",
        caller: { app: "org.example.chat", verified: true, actor: "Chat Bot" },
        expires_at: answer.detail.expires_at,
        hold_ms: 0,
        digest: notesTools.find(({ name }) => name === "create")?.digest,
      },
    });
    expect(answer.detail.expires_at).toBe("2030-01-01T00:05:00.000Z");
  });
});
