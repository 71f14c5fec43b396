import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { AgentHarness, userCaller } from "../../../../support/agent-harness.ts";

/** Makes the journal refuse what `condition` is true of, until the function that it returns is called. */
function refuse(
  world: AgentHarness,
  verb: "INSERT" | "UPDATE" | "DELETE",
  condition: string,
): () => void {
  const run = (sql: string) => {
    const db = new Database(join(world.dir, "agent.db"));
    db.exec(sql);
    db.close();
  };
  run(
    `CREATE TRIGGER refuse BEFORE ${verb} ON calls WHEN ${condition} BEGIN SELECT RAISE(ABORT, 'full'); END`,
  );
  return () => run("DROP TRIGGER refuse");
}

describe("a journal that cannot be written", () => {
  it.each(["create", "star"])("keeps a call from happening: %s", async (tool) => {
    const world = await AgentHarness.open();
    refuse(world, "INSERT", "1");
    const answer = await world.request(tool, { title: "a" });
    expect(answer).toMatchObject({ disposition: "failed", detail: { code: "ledger_unavailable" } });
    expect(answer.detail.message).not.toContain(world.dir);
    expect(world.confirmationRequests).toEqual([]);
    expect(world.app.received).toEqual([]);
    expect((await world.request("list", {})).disposition).toBe("executed");
  });

  it("leaves a call parked that it does not give out", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const stop = refuse(world, "UPDATE", "NEW.state = 'dispatching'");
    expect((await world.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    expect(world.app.received).toEqual([]);
    stop();
    expect((await world.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(
      world.ledger.entryNamesOfCall(callId).filter((step) => step === "call.confirmed"),
    ).toHaveLength(1);
  });

  it("leaves a call parked where the ledger fails too", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    world.ledger.mode = "down";
    const stop = refuse(world, "UPDATE", "NEW.state = 'parked'");
    expect((await world.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    world.ledger.mode = "ok";
    expect((await world.agent.confirm(callId, true, userCaller())).detail.code).toBe(
      "ledger_unavailable",
    );
    expect(world.app.received).toEqual([]);
    stop();
    expect((await world.agent.confirm(callId, true, userCaller())).status).toBe("executed");
    expect(world.app.received).toHaveLength(1);
  });

  it("does not change that a call was executed; it is not executed again, and cannot be undone", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    const stop = refuse(world, "UPDATE", "NEW.state = 'ended'");
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(end).toMatchObject({
      status: "executed",
      detail: { undoable: false, result: { id: "n1" } },
    });
    expect(end.detail.undo).toBeUndefined();
    const again = await world.agent.confirm(callId, true, userCaller());
    expect(again).toEqual({ ...end, detail: { ...end.detail, replayed: true } });
    expect((await world.agent.undo(userCaller())).status).toBe("nothing");
    expect(world.app.received).toHaveLength(1);

    // The next daemon knows no more than that it had begun.
    world.dir = world.snapshot();
    stop();
    await world.start();
    expect((await world.agent.confirm(callId, true, userCaller())).detail.code).toBe("interrupted");
    expect(world.app.received).toHaveLength(1);
  });

  it("takes the end later, where it can", async () => {
    const world = await AgentHarness.open();
    const [first, second] = [await world.park(), await world.park()];
    const stop = refuse(world, "UPDATE", "NEW.state = 'ended'");
    await world.agent.confirm(first, true, userCaller());
    stop();
    await world.agent.confirm(second, false, userCaller());
    await world.restart();
    expect((await world.agent.confirm(first, true, userCaller())).status).toBe("executed");
    expect(world.app.received).toHaveLength(1);
  });

  it("is not told of an undo, which is then not begun", async () => {
    const world = await AgentHarness.open();
    await world.agent.confirm(await world.park(), true, userCaller());
    const stop = refuse(world, "UPDATE", "NEW.undo_state = 'running'");
    expect(await world.agent.undo(userCaller())).toMatchObject({
      status: "failed",
      error: { code: "ledger_unavailable" },
      attempts: 0,
    });
    expect(world.notes.size).toBe(1);
    stop();
    expect((await world.agent.undo(userCaller())).status).toBe("undone");
  });

  it("does not make an undo run twice", async () => {
    const world = await AgentHarness.open();
    const callId = await world.park();
    await world.agent.confirm(callId, true, userCaller());
    refuse(world, "UPDATE", "NEW.undo_state = 'undone'");
    expect(await world.agent.undo(userCaller())).toMatchObject({ status: "undone", remaining: 0 });
    expect((await world.agent.undo(userCaller())).status).toBe("nothing");
    await expect(world.agent.undoSkip(callId, userCaller())).rejects.toMatchObject({
      code: "not_found",
    });
    expect(world.app.received).toHaveLength(2);
  });
});

describe("what the journal keeps", () => {
  it("is a day of ended calls, and longer what can be undone", async () => {
    const world = await AgentHarness.open();
    const undoable = await world.park();
    await world.agent.confirm(undoable, true, userCaller());
    const declined = await world.park();
    await world.agent.confirm(declined, false, userCaller());
    await world.clock.advance(23 * 3_600_000);
    await world.restart();
    expect((await world.agent.confirm(declined, true, userCaller())).detail.code).toBe("declined");
    await world.clock.advance(2 * 3_600_000);
    await world.restart();
    expect((await world.agent.confirm(declined, true, userCaller())).detail.code).toBe(
      "unknown_call",
    );
    expect((await world.agent.undo(userCaller())).call_id).toBe(undoable);
  });

  it("leaves out a result that is too large, and says so", async () => {
    const world = await AgentHarness.open();
    world.app.respond = () => ({ kind: "result", structured: { id: "x".repeat(2_000_000) } });
    const callId = await world.park();
    const end = await world.agent.confirm(callId, true, userCaller());
    expect(JSON.stringify(end.detail.result)).toHaveLength(2_000_009);
    const { detail } = await world.agent.confirm(callId, true, userCaller());
    expect(detail).toMatchObject({ code: "ok", replayed: true });
    expect(detail.result).toBeUndefined();
    expect(detail.message).toContain("too large");
  });
});
