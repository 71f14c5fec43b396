import { describe, expect, it } from "vitest";
import {
  AgentHarness,
  buildDeclaration,
  NOTES,
  notesTools,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";
import { Gate } from "../../../../support/scripted-service.ts";

async function create(
  harness: AgentHarness,
  title: string,
  caller = userCaller(),
): Promise<number> {
  const callId = await harness.park("create", { title }, caller);
  await harness.agent.confirm(callId, true, userCaller());
  return callId;
}

describe("undo of a call", () => {
  it("reverts the last call first, and reports the number of calls that can still be undone", async () => {
    const harness = await AgentHarness.open();
    const first = await create(harness, "a");
    const second = await create(harness, "b");
    expect([...harness.notes.keys()]).toEqual(["n1", "n2"]);
    const report = await harness.agent.undo(userCaller());
    expect(report).toMatchObject({
      v: 1,
      status: "undone",
      call_id: second,
      app_id: NOTES,
      tool: "create",
      compensation: { tool: "delete", args: { id: "n2" } },
      result: { gone: true },
      error: null,
      attempts: 1,
      remaining: 1,
    });
    expect([...harness.notes.keys()]).toEqual(["n1"]);
    expect(await harness.agent.undo(userCaller())).toMatchObject({ call_id: first, remaining: 0 });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "nothing",
      call_id: null,
    });
    expect(harness.ledger.entryNamesOfCall(second)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
      "undo.dispatch",
      "undo.result:ok",
    ]);
    const dispatch = harness.ledger.entries.find(({ name }) => name === "agent.undo.dispatch");
    expect(report.ledger?.seq).toBe(dispatch?.seq);
    expect(dispatch?.fields).toMatchObject({ call: second, tool: "delete", attempt: 1 });
    expect(dispatch?.sealed).toEqual({ args: '{"id":"n2"}' });
  });

  it("uses the stored compensation after a restart of the daemon", async () => {
    const harness = await AgentHarness.open();
    await create(harness, "a");
    harness.dir = harness.snapshot();
    await harness.start();
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "undone" });
    expect(harness.notes.size).toBe(0);
  });

  it("also reverts calls that ran without confirmation", async () => {
    const harness = await AgentHarness.open();
    const { callId, detail } = await harness.request("star", { title: "a" });
    expect(detail).toMatchObject({
      code: "ok",
      undoable: true,
      undo: { tool: "delete", args: { id: "n1" } },
    });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: callId,
    });
  });

  it("ignores calls that failed or have no compensation", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park("delete", { id: "none" });
    expect(await harness.agent.confirm(callId, true, userCaller())).toMatchObject({
      status: "failed",
      detail: { code: "tool_error", message: "no such note" },
    });
    await harness.request("list", {});
    expect((await harness.agent.undo(userCaller())).status).toBe("nothing");
  });

  it("tries a failed compensation again before it reverts older calls", async () => {
    const harness = await AgentHarness.open();
    const first = await create(harness, "a");
    const second = await create(harness, "b");
    await harness.app.die();
    const failed = await harness.agent.undo(userCaller());
    expect(failed).toMatchObject({
      status: "failed",
      call_id: second,
      error: { code: "app_unavailable" },
      attempts: 1,
      remaining: 2,
    });
    harness.startNotes();
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: second,
      attempts: 2,
    });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
      attempts: 1,
    });
  });

  it("reverts the call before it if the user has skipped the undo of the latest call", async () => {
    const harness = await AgentHarness.open();
    const first = await create(harness, "a");
    const second = await create(harness, "b");
    expect(await harness.agent.undoSkip(second, userCaller())).toMatchObject({
      status: "skipped",
      call_id: second,
      remaining: 1,
    });
    expect(harness.ledger.entryNamesOfCall(second).at(-1)).toBe("undo.result:ok");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
    });
    expect([...harness.notes.keys()]).toEqual(["n2"]);
    for (const callId of [first, second, 77])
      await expect(harness.agent.undoSkip(callId, userCaller())).rejects.toMatchObject({
        code: "not_found",
      });
  });

  it("runs only one undo at a time", async () => {
    const harness = await AgentHarness.open();
    await create(harness, "a");
    await create(harness, "b");
    const [first, second] = await Promise.allSettled([
      harness.agent.undo(userCaller()),
      harness.agent.undo(userCaller(":1.2")),
    ]);
    expect(first).toMatchObject({ status: "fulfilled", value: { status: "undone" } });
    expect(second).toMatchObject({ status: "rejected", reason: { code: "busy" } });
    expect(harness.notes.size).toBe(1);
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "undone" });
  });

  it("lets a sandboxed app revert only its own calls", async () => {
    const harness = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const own = await create(harness, "a", chat);
    const foreign = await create(harness, "b");
    expect(await harness.agent.undo(sandboxedCaller("org.example.none"))).toMatchObject({
      status: "nothing",
    });
    await expect(harness.agent.undoSkip(foreign, chat)).rejects.toMatchObject({
      code: "forbidden",
    });
    await expect(harness.agent.undoSkip(77, chat)).rejects.toMatchObject({ code: "forbidden" });
    expect(await harness.agent.undo(chat)).toMatchObject({
      status: "undone",
      call_id: own,
      remaining: 0,
    });
    expect(await harness.agent.undo(chat)).toMatchObject({ status: "nothing" });
    expect([...harness.notes.keys()]).toEqual(["n2"]);
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: foreign,
    });
  });

  it("of a sandboxed app whose tool hangs does not delay the undo of the user, who cannot revert the same call meanwhile", async () => {
    const harness = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const oldest = await create(harness, "a");
    const own = await create(harness, "b", chat);
    const gate = new Gate();
    const { respond } = harness.app;
    harness.app.respond = (name, args) =>
      args["id"] === "n2"
        ? { kind: "late", release: gate.opened, structured: {} }
        : (respond?.(name, args) ?? { kind: "result" });
    const undoing = harness.agent.undo(chat);
    await expect.poll(() => harness.app.received.map(({ name }) => name)).toContain("delete");
    await expect(harness.agent.undo(chat)).rejects.toMatchObject({ code: "busy" });
    await expect(harness.agent.undoSkip(own, userCaller())).rejects.toMatchObject({ code: "busy" });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: oldest,
    });
    gate.open();
    expect(await undoing).toMatchObject({ status: "undone", call_id: own });
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "nothing" });
  });

  it("does not run for a disabled tool, and does not count as an attempt", async () => {
    const harness = await AgentHarness.open();
    await create(harness, "a");
    const error = async () => (await harness.agent.undo(userCaller())).error?.code;
    harness.rules = { ...permissiveRules, isPaused: true };
    expect(await error()).toBe("paused");
    harness.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/delete`]) };
    expect(await error()).toBe("tool_disabled");
    harness.rules = permissiveRules;
    const id = { type: "object", properties: { id: { type: "string", maxLength: 1 } } };
    const narrow = buildDeclaration("delete", "destructive", id);
    const app = { appId: NOTES, name: "Notes", isActivatable: false };
    harness.registry.set([{ ...app, tools: [narrow] }]);
    expect(await error()).toBe("invalid_args");
    harness.registry.set([{ ...app, tools: [] }]);
    expect(await error()).toBe("unknown_tool");
    harness.registry.set([]);
    expect(await error()).toBe("unknown_app");
    expect(harness.app.received).toHaveLength(1);
    harness.registry.set([{ ...app, tools: notesTools }]);
    expect(await harness.agent.undo(userCaller())).toMatchObject({ status: "undone", attempts: 1 });
  });
});

describe("a call without a valid compensation", () => {
  it.each([
    ["an unstructured result", { kind: "result" }, "the call has no $result.id"],
    ["a value of another type", { kind: "result", structured: { id: 7 } }, "must be string"],
    [
      "a number that is too large",
      { kind: "result", structured: { id: 2 ** 60 } },
      "read differently",
    ],
  ] as const)(
    "is executed, and its detail explains why it cannot be undone: %s",
    async (_, answer, why) => {
      const harness = await AgentHarness.open();
      harness.app.respond = () => answer;
      const callId = await harness.park();
      const { status, detail } = await harness.agent.confirm(callId, true, userCaller());
      expect(status).toBe("executed");
      expect(detail.undoable).toBe(false);
      expect(detail.undo).toBeUndefined();
      expect(detail.message).toContain(why);
      expect((await harness.agent.undo(userCaller())).status).toBe("nothing");
    },
  );
});
