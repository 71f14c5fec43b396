import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { AgentHarness, userCaller } from "../../../../support/agent-harness.ts";

/** Makes the journal reject rows for which `condition` is true, until the returned function is called. */
function rejectRows(
  harness: AgentHarness,
  verb: "INSERT" | "UPDATE" | "DELETE",
  condition: string,
): () => void {
  const run = (sql: string) => {
    const db = new Database(join(harness.dir, "agent.db"));
    db.exec(sql);
    db.close();
  };
  run(
    `CREATE TRIGGER refuse BEFORE ${verb} ON calls WHEN ${condition} BEGIN SELECT RAISE(ABORT, 'full'); END`,
  );
  return () => run("DROP TRIGGER refuse");
}

describe("while the journal cannot be written", () => {
  it.each(["create", "star"])("a call of the tool %s fails before it begins", async (tool) => {
    const harness = await AgentHarness.open();
    rejectRows(harness, "INSERT", "1");
    const answer = await harness.request(tool, { title: "a" });
    expect(answer).toMatchObject({ disposition: "failed", detail: { code: "ledger_unavailable" } });
    expect(answer.detail.message).not.toContain(harness.dir);
    expect(harness.confirmationRequests).toEqual([]);
    expect(harness.app.received).toEqual([]);
    expect((await harness.request("list", {})).disposition).toBe("executed");
  });

  it("a call that waits for confirmation keeps waiting, and is not dispatched", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const stop = rejectRows(harness, "UPDATE", "NEW.state = 'dispatching'");
    expect((await harness.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    expect(harness.app.received).toEqual([]);
    stop();
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(
      harness.ledger.entryNamesOfCall(callId).filter((step) => step === "call.confirmed"),
    ).toHaveLength(1);
  });

  it("a call that waits for confirmation keeps waiting even if the ledger fails too", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    harness.ledger.mode = "down";
    const stop = rejectRows(harness, "UPDATE", "NEW.state = 'parked'");
    expect((await harness.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    harness.ledger.mode = "ok";
    expect((await harness.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    expect(harness.app.received).toEqual([]);
    stop();
    expect((await harness.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(harness.app.received).toHaveLength(1);
  });

  it("an executed call is reported as executed, is not executed again, and cannot be undone", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    const stop = rejectRows(harness, "UPDATE", "NEW.state = 'ended'");
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({
      status: "executed",
      detail: { undoable: false, result: { id: "n1" } },
    });
    expect(end.detail.undo).toBeUndefined();
    const again = await harness.agent.confirm(callId, true, userCaller());
    expect(again).toEqual({ ...end, detail: { ...end.detail, replayed: true } });
    expect((await harness.agent.undo(userCaller())).status).toBe("nothing");
    expect(harness.app.received).toHaveLength(1);

    // The journal of the next daemon contains only that the call began.
    harness.dir = harness.snapshot();
    stop();
    await harness.start();
    expect((await harness.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "interrupted",
    );
    expect(harness.app.received).toHaveLength(1);
  });

  it("the result of a call is recorded later, when the journal can be written again", async () => {
    const harness = await AgentHarness.open();
    const [first, second] = [await harness.park(), await harness.park()];
    const stop = rejectRows(harness, "UPDATE", "NEW.state = 'ended'");
    await harness.agent.confirm(first, true, userCaller());
    stop();
    await harness.agent.confirm(second, false, userCaller());
    await harness.restart();
    expect((await harness.agent.confirm(first, true, userCaller())).status).toBe("executed");
    expect(harness.app.received).toHaveLength(1);
  });

  it("an undo fails before it begins", async () => {
    const harness = await AgentHarness.open();
    await harness.agent.confirm(await harness.park(), true, userCaller());
    const stop = rejectRows(harness, "UPDATE", "NEW.undo_state = 'running'");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "failed",
      error: { code: "ledger_unavailable" },
      attempts: 0,
    });
    expect(harness.notes.size).toBe(1);
    stop();
    expect((await harness.agent.undo(userCaller())).status).toBe("undone");
  });

  it("an undo never runs twice", async () => {
    const harness = await AgentHarness.open();
    const callId = await harness.park();
    await harness.agent.confirm(callId, true, userCaller());
    rejectRows(harness, "UPDATE", "NEW.undo_state = 'undone'");
    expect(await harness.agent.undo(userCaller())).toMatchObject({
      status: "undone",
      remaining: 0,
    });
    expect((await harness.agent.undo(userCaller())).status).toBe("nothing");
    await expect(harness.agent.undoSkip(callId, userCaller())).rejects.toMatchObject({
      code: "not_found",
    });
    expect(harness.app.received).toHaveLength(2);
  });
});

describe("the retention of the call journal", () => {
  it("keeps ended calls for a day, and calls that can be undone for longer", async () => {
    const harness = await AgentHarness.open();
    const undoable = await harness.park();
    await harness.agent.confirm(undoable, true, userCaller());
    const declined = await harness.park();
    await harness.agent.confirm(declined, false, userCaller());
    await harness.clock.advance(23 * 3_600_000);
    await harness.restart();
    expect((await harness.agent.confirm(declined, true, userCaller())).detail.code).toBe(
      "declined",
    );
    await harness.clock.advance(2 * 3_600_000);
    await harness.restart();
    expect((await harness.agent.confirm(declined, true, userCaller())).detail.code).toBe(
      "unknown_call",
    );
    expect((await harness.agent.undo(userCaller())).call_id).toBe(undoable);
  });

  it("stores an oversized result without its content, and marks it", async () => {
    const harness = await AgentHarness.open();
    harness.app.respond = () => ({ kind: "result", structured: { id: "x".repeat(2_000_000) } });
    const callId = await harness.park();
    const end = await harness.agent.confirm(callId, true, userCaller());
    expect(JSON.stringify(end.detail.result)).toHaveLength(2_000_009);
    const { detail } = await harness.agent.confirm(callId, true, userCaller());
    expect(detail).toMatchObject({ code: "ok", replayed: true });
    expect(detail.result).toBeUndefined();
    expect(detail.message).toContain("too large");
  });
});
