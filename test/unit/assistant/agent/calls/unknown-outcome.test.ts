import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { callJournalMigrations } from "../../../../../src/assistant/agent/calls/call-journal-schema.ts";
import { type LateAnswer, ToolAppError } from "../../../../../src/assistant/agent/tool-apps.ts";
import { AgentHarness, sandboxedCaller, userCaller } from "../../../../support/agent-harness.ts";
import { findOrderViolation } from "../../../../support/call-entry-order.ts";
import { Gate } from "../../../../support/scripted-service.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

/** A late answer that the test gives at a time of its choice. */
function lateAnswer() {
  const gate = new Gate();
  const given: { answer?: LateAnswer } = {};
  return {
    promise: gate.opened.then(() => given.answer),
    give: (answer: LateAnswer) => {
      given.answer = answer;
      gate.open();
    },
  };
}

const result = (structured: object): LateAnswer => ({
  structured: { ...structured },
  content: [],
  isError: false,
});
const refusal: LateAnswer = {
  structured: undefined,
  content: [{ type: "text", text: "no space" }],
  isError: true,
};

function lastEntry(harness: AgentHarness, callId: number): string | undefined {
  const names = harness.ledger.entryNamesOfCall(callId);
  expect(findOrderViolation(names)).toBeUndefined();
  return names.at(-1);
}

async function create(harness: AgentHarness, caller = userCaller()): Promise<number> {
  const callId = await harness.park("create", { title: "a" }, caller);
  await harness.agent.confirm(callId, true, userCaller());
  return callId;
}

const confirmAgain = (harness: AgentHarness, callId: number) =>
  harness.agent.confirm(callId, true, userCaller());

describe("a call that was sent to the app, and failed without an answer", () => {
  it.each(["timeout", "transport_closed", "bad_result", "result_too_large"] as const)(
    "has an unknown outcome: %s",
    async (code) => {
      const harness = await AgentHarness.open();
      harness.failNextCall(code);
      const { disposition, detail } = await harness.request("list", {});
      expect([disposition, detail.code, detail.outcome]).toEqual(["failed", code, "unknown"]);
      expect(detail.message).toBe(
        "the app failed; it is unknown whether the call has taken effect",
      );
    },
  );

  it("has an unknown outcome if the app's result cannot be read", async () => {
    const harness = await AgentHarness.open();
    harness.app.respond = () => ({ kind: "nonsense" });
    expect((await harness.request("list", {})).detail).toMatchObject({
      code: "bad_result",
      outcome: "unknown",
    });
  });

  it("has a known outcome if it was never sent, or if the app refused it", async () => {
    const harness = await AgentHarness.open();
    harness.apps.fault = (step) => {
      if (step === "definition") throw new ToolAppError("timeout", "the app lists no tools");
    };
    const unsent = await harness.request("list", {});
    expect([unsent.detail.code, unsent.detail.outcome]).toEqual(["timeout", undefined]);
    harness.failNextCall("tool_error");
    const refused = await harness.request("list", {});
    expect([refused.detail.code, refused.detail.outcome]).toEqual(["tool_error", undefined]);
  });

  it("has an unknown outcome after a crash", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    let dir = "";
    harness.apps.after = () => {
      dir = harness.snapshot();
    };
    await confirmAgain(harness, callId);
    harness.dir = dir;
    await harness.start();
    expect((await confirmAgain(harness, callId)).detail).toMatchObject({
      code: "interrupted",
      outcome: "unknown",
    });
  });
});

describe("a late answer to a call", () => {
  it("replaces the result, is recorded, and makes the call undoable", async () => {
    const harness = await AgentHarness.open();
    const late = lateAnswer();
    const callId = await harness.park();
    harness.failNextCall("timeout", late.promise);
    expect(await confirmAgain(harness, callId)).toMatchObject({
      status: "failed",
      detail: { code: "timeout", outcome: "unknown", undoable: false },
    });
    expect((await harness.agent.undo(userCaller())).status).toBe("nothing");
    await harness.clock.advance(90_000);
    harness.notes.set("n9", {});
    late.give(result({ id: "n9" }));
    await expect.poll(() => lastEntry(harness, callId)).toBe("call.late:ok");
    const dispatch = harness.ledger.entries.find(({ name }) => name === "agent.call.dispatch");
    expect(harness.ledger.entries.at(-1)).toMatchObject({
      fields: { status: "executed", dispatch: dispatch?.seq },
      sealed: { result: '{"content":[],"structured":{"id":"n9"}}' },
    });
    await expect.poll(async () => (await confirmAgain(harness, callId)).status).toBe("executed");
    await harness.restart();
    const { detail } = await confirmAgain(harness, callId);
    expect(detail).toMatchObject({
      code: "ok",
      late: true,
      replayed: true,
      result: { id: "n9" },
      undoable: true,
      ms: 90_000,
    });
    expect(detail.outcome).toBeUndefined();
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: callId,
    });
    expect(harness.notes.size).toBe(0);
  });

  it("settles a call as failed if the tool failed", async () => {
    const harness = await AgentHarness.open();
    const late = lateAnswer();
    harness.failNextCall("timeout", late.promise);
    const { callId } = await harness.request("star", { title: "a" });
    late.give(refusal);
    await expect.poll(() => lastEntry(harness, callId)).toBe("call.late:tool_error");
    await expect
      .poll(async () => (await confirmAgain(harness, callId)).detail)
      .toMatchObject({ code: "tool_error", message: "no space", late: true });
    expect((await confirmAgain(harness, callId)).detail.outcome).toBeUndefined();
  });

  it("is recorded only in the ledger if the call has no row in the journal", async () => {
    const harness = await AgentHarness.open();
    const late = lateAnswer();
    harness.failNextCall("timeout", late.promise);
    const { callId } = await harness.request("list", {});
    late.give(result({ notes: [] }));
    await expect.poll(() => lastEntry(harness, callId)).toBe("call.late:ok");
    expect((await confirmAgain(harness, callId)).detail.code).toBe("unknown_call");
  });

  it("waits in the outbox while the ledger is down, and still makes the call undoable", async () => {
    const harness = await AgentHarness.open();
    const late = lateAnswer();
    const callId = await harness.park();
    harness.failNextCall("timeout", late.promise);
    await confirmAgain(harness, callId);
    harness.ledger.mode = "down";
    late.give(result({ id: "n9" }));
    await expect.poll(async () => (await confirmAgain(harness, callId)).status).toBe("executed");
    harness.ledger.mode = "ok";
    await harness.clock.advance(5_000);
    expect(lastEntry(harness, callId)).toBe("call.late:ok");
  });

  it("that is unreadable, or that never comes, leaves the outcome unknown and does not delay the shutdown", async () => {
    const harness = await AgentHarness.open();
    const [odd, never] = [lateAnswer(), lateAnswer()];
    const ids: number[] = [];
    for (const { promise } of [odd, never]) {
      const callId = await harness.park();
      harness.failNextCall("timeout", promise);
      await confirmAgain(harness, callId);
      ids.push(callId);
    }
    let deep: object = {};
    for (let level = 0; level < 200; level += 1) deep = { deep };
    odd.give(result(deep));
    await harness.restart();
    for (const callId of ids) {
      expect(lastEntry(harness, callId)).toBe("call.result:timeout");
      expect((await confirmAgain(harness, callId)).detail.outcome).toBe("unknown");
    }
  });
});

describe("an undo with an unknown outcome", () => {
  it("is skipped by later undos, is counted separately, and can be tried again by its id", async () => {
    const harness = await AgentHarness.open();
    const [first, second] = [await create(harness), await create(harness)];
    harness.failNextCall("timeout");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "failed",
      call_id: second,
      error: { code: "timeout", outcome: "unknown" },
      attempts: 1,
      remaining: 1,
      unknown: [second],
    });
    await expect(harness.agent.undoCall(first, userCaller())).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
      remaining: 0,
      unknown: [second],
    });
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "nothing",
      unknown: [second],
    });
    await harness.restart();
    expect(await harness.agent.undoCall(second, userCaller())).toMatchObject({
      status: "undone",
      call_id: second,
      attempts: 2,
      unknown: [],
    });
    expect(harness.notes.size).toBe(0);
    await expect(harness.agent.undoCall(second, userCaller())).rejects.toMatchObject({
      code: "not_found",
    });
  });

  it("stays unknown if another attempt fails, because the first one may have taken effect", async () => {
    const harness = await AgentHarness.open();
    const callId = await create(harness);
    harness.failNextCall("timeout");
    await harness.agent.undo(userCaller());
    harness.notes.clear();
    const report = await harness.agent.undoCall(callId, userCaller());
    expect(report).toMatchObject({
      status: "failed",
      error: { code: "tool_error" },
      unknown: [callId],
    });
    expect(report.error?.outcome).toBeUndefined();
    harness.ledger.mode = "down";
    expect(await harness.agent.undoCall(callId, userCaller())).toMatchObject({
      error: { code: "ledger_unavailable" },
      attempts: 2,
      unknown: [callId],
    });
    harness.ledger.mode = "ok";
    expect(await harness.agent.undoSkip(callId, userCaller())).toMatchObject({
      status: "skipped",
      unknown: [],
    });
  });

  it("is settled by a late answer: undone, or ready again if nothing was undone", async () => {
    const harness = await AgentHarness.open();
    const [first, second] = [await create(harness), await create(harness)];
    const undone = lateAnswer();
    harness.failNextCall("timeout", undone.promise);
    await harness.agent.undo(userCaller());
    undone.give(result({ gone: true }));
    await expect.poll(() => lastEntry(harness, second)).toBe("undo.late:ok");
    await expect(harness.agent.undoSkip(second, userCaller())).rejects.toMatchObject({
      code: "not_found",
    });
    const refused = lateAnswer();
    harness.failNextCall("timeout", refused.promise);
    await harness.agent.undo(userCaller());
    refused.give(refusal);
    await expect.poll(() => lastEntry(harness, first)).toBe("undo.late:tool_error");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      call_id: first,
      attempts: 2,
      unknown: [],
    });
  });

  it("stays unknown if only one of two attempts answers late that it failed", async () => {
    const harness = await AgentHarness.open();
    const callId = await create(harness);
    const [first, second] = [lateAnswer(), lateAnswer()];
    harness.failNextCall("timeout", first.promise);
    await harness.agent.undo(userCaller());
    harness.failNextCall("timeout", second.promise);
    await harness.agent.undoCall(callId, userCaller());
    second.give(refusal);
    await expect.poll(() => lastEntry(harness, callId)).toBe("undo.late:tool_error");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "nothing",
      unknown: [callId],
    });
    first.give(result({ gone: true }));
    await expect.poll(() => lastEntry(harness, callId)).toBe("undo.late:ok");
    expect((await harness.agent.undo(userCaller())).unknown).toEqual([]);
  });

  it("counts as undone if a late answer says so while another attempt runs", async () => {
    const harness = await AgentHarness.open();
    const callId = await create(harness);
    const late = lateAnswer();
    harness.failNextCall("timeout", late.promise);
    await harness.agent.undo(userCaller());
    harness.apps.fault = (step) => {
      if (step === "call") late.give(result({ gone: true }));
    };
    harness.notes.clear();
    const report = await harness.agent.undoCall(callId, userCaller());
    expect(report).toMatchObject({ status: "failed", error: { code: "tool_error" } });
    await expect.poll(async () => (await harness.agent.undo(userCaller())).unknown).toEqual([]);
  });

  it("is also recorded for an undo that a crash interrupted, and belongs to that undo's requester", async () => {
    const harness = await AgentHarness.open();
    const chat = sandboxedCaller("org.example.chat");
    const callId = await create(harness, chat);
    let dir = "";
    harness.apps.after = () => {
      dir = harness.snapshot();
    };
    await harness.agent.undo(chat);
    harness.dir = dir;
    await harness.start();
    expect(lastEntry(harness, callId)).toBe("undo.result:interrupted");
    expect(await harness.agent.undo(chat)).toMatchObject({ status: "nothing", unknown: [callId] });
    const other = sandboxedCaller("org.example.other");
    expect((await harness.agent.undo(other)).unknown).toEqual([]);
    await expect(harness.agent.undoCall(callId, other)).rejects.toMatchObject({
      code: "forbidden",
    });
    expect((await harness.agent.undoCall(callId, chat)).error?.code).toBe("tool_error");
  });

  it("can be stored in a journal that was created before this state existed", async () => {
    const dir = temporaryFolder("agent");
    const db = new Database(join(dir, "agent.db"));
    db.exec(callJournalMigrations[0] ?? "");
    db.exec(
      `INSERT INTO calls (call_id, state, app_id, tool, ended_ms, status, detail, executed, undo_tool, undo_args, undo_state)
       VALUES (7, 'ended', 'org.example.notes', 'create', 0, 'executed', '{"code":"ok"}', 1, 'delete', '{"id":"n1"}', 'ready')`,
    );
    db.pragma("user_version = 1");
    db.close();
    const harness = await AgentHarness.open({}, dir);
    harness.notes.set("n1", {});
    harness.failNextCall("timeout");
    expect(await harness.agent.undo(userCaller())).toMatchObject({ call_id: 7, unknown: [7] });
    expect((await harness.agent.undoCall(7, userCaller())).status).toBe("undone");
  });
});
