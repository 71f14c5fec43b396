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

async function create(world: AgentHarness, title: string, caller = userCaller()): Promise<number> {
  const callId = await world.park("create", { title }, caller);
  await world.agent.confirm(callId, true, userCaller());
  return callId;
}

describe("undo", () => {
  it("takes the last call back first, and tells what is left", async () => {
    const world = await AgentHarness.open();
    const first = await create(world, "a");
    const second = await create(world, "b");
    expect([...world.notes.keys()]).toEqual(["n1", "n2"]);
    const report = await world.agent.undo(userCaller());
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
    expect([...world.notes.keys()]).toEqual(["n1"]);
    expect(await world.agent.undo(userCaller())).toMatchObject({ call_id: first, remaining: 0 });
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "nothing",
      call_id: null,
    });
    expect(world.ledger.entryNamesOfCall(second)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
      "undo.dispatch",
      "undo.result:ok",
    ]);
    const dispatch = world.ledger.entries.find(({ name }) => name === "agent.undo.dispatch");
    expect(report.ledger?.seq).toBe(dispatch?.seq);
    expect(dispatch?.fields).toMatchObject({ call: second, tool: "delete", attempt: 1 });
    expect(dispatch?.sealed).toEqual({ args: '{"id":"n2"}' });
  });

  it("knows after a restart what was to be called", async () => {
    const world = await AgentHarness.open();
    await create(world, "a");
    world.dir = world.snapshot();
    await world.start();
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone" });
    expect(world.notes.size).toBe(0);
  });

  it("takes back what ran at once, too", async () => {
    const world = await AgentHarness.open();
    const { callId, detail } = await world.request("star", { title: "a" });
    expect(detail).toMatchObject({
      code: "ok",
      undoable: true,
      undo: { tool: "delete", args: { id: "n1" } },
    });
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: callId,
    });
  });

  it("leaves calls alone that failed, or have no compensation", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park("delete", { id: "none" });
    expect(await world.agent.confirm(callId, true, userCaller())).toMatchObject({
      status: "failed",
      detail: { code: "tool_error", message: "no such note" },
    });
    await world.request("list", {});
    expect((await world.agent.undo(userCaller())).status).toBe("nothing");
  });

  it("keeps a compensation that failed on top, and tries it again", async () => {
    const world = await AgentHarness.open();
    const first = await create(world, "a");
    const second = await create(world, "b");
    await world.app.die();
    const failed = await world.agent.undo(userCaller());
    expect(failed).toMatchObject({
      status: "failed",
      call_id: second,
      error: { code: "app_unavailable" },
      attempts: 1,
      remaining: 2,
    });
    world.startNotes();
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: second,
      attempts: 2,
    });
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
      attempts: 1,
    });
  });

  it("passes over a call that is skipped", async () => {
    const world = await AgentHarness.open();
    const first = await create(world, "a");
    const second = await create(world, "b");
    expect(await world.agent.undoSkip(second, userCaller())).toMatchObject({
      status: "skipped",
      call_id: second,
      remaining: 1,
    });
    expect(world.ledger.entryNamesOfCall(second).at(-1)).toBe("undo.result:ok");
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
    });
    expect([...world.notes.keys()]).toEqual(["n2"]);
    for (const callId of [first, second, 77])
      await expect(world.agent.undoSkip(callId, userCaller())).rejects.toMatchObject({
        code: "not_found",
      });
  });

  it("is one at a time", async () => {
    const world = await AgentHarness.open();
    await create(world, "a");
    await create(world, "b");
    const [first, second] = await Promise.allSettled([
      world.agent.undo(userCaller()),
      world.agent.undo(userCaller(":1.2")),
    ]);
    expect(first).toMatchObject({ status: "fulfilled", value: { status: "undone" } });
    expect(second).toMatchObject({ status: "rejected", reason: { code: "busy" } });
    expect(world.notes.size).toBe(1);
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone" });
  });

  it("lets a sandboxed app take back only what it asked for itself", async () => {
    const world = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const own = await create(world, "a", chat);
    const foreign = await create(world, "b");
    expect(await world.agent.undo(sandboxedCaller("org.example.none"))).toMatchObject({
      status: "nothing",
    });
    await expect(world.agent.undoSkip(foreign, chat)).rejects.toMatchObject({ code: "forbidden" });
    await expect(world.agent.undoSkip(77, chat)).rejects.toMatchObject({ code: "forbidden" });
    expect(await world.agent.undo(chat)).toMatchObject({
      status: "undone",
      call_id: own,
      remaining: 0,
    });
    expect(await world.agent.undo(chat)).toMatchObject({ status: "nothing" });
    expect([...world.notes.keys()]).toEqual(["n2"]);
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: foreign,
    });
  });

  it("does not run where it is forbidden, and counts no attempt", async () => {
    const world = await AgentHarness.open();
    await create(world, "a");
    const error = async () => (await world.agent.undo(userCaller())).error?.code;
    world.rules = { ...permissiveRules, isPaused: true };
    expect(await error()).toBe("paused");
    world.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/delete`]) };
    expect(await error()).toBe("tool_disabled");
    world.rules = permissiveRules;
    const id = { type: "object", properties: { id: { type: "string", maxLength: 1 } } };
    const narrow = buildDeclaration("delete", "destructive", id);
    const app = { appId: NOTES, name: "Notes", isActivatable: false };
    world.registry.set([{ ...app, tools: [narrow] }]);
    expect(await error()).toBe("invalid_args");
    world.registry.set([{ ...app, tools: [] }]);
    expect(await error()).toBe("unknown_tool");
    world.registry.set([]);
    expect(await error()).toBe("unknown_app");
    expect(world.app.received).toHaveLength(1);
    world.registry.set([{ ...app, tools: notesTools }]);
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone", attempts: 1 });
  });
});

describe("a call whose compensation cannot be made", () => {
  it.each([
    ["nothing structured", { kind: "result" }, "the call has no $result.id"],
    ["another type", { kind: "result", structured: { id: 7 } }, "must be string"],
    ["too large a number", { kind: "result", structured: { id: 2 ** 60 } }, "do not agree"],
  ] as const)("is executed all the same, and says so: %s", async (_, answer, why) => {
    const world = await AgentHarness.open();
    world.app.respond = () => answer;
    const callId = await world.park();
    const { status, detail } = await world.agent.confirm(callId, true, userCaller());
    expect(status).toBe("executed");
    expect(detail.undoable).toBe(false);
    expect(detail.undo).toBeUndefined();
    expect(detail.message).toContain(why);
    expect((await world.agent.undo(userCaller())).status).toBe("nothing");
  });
});
