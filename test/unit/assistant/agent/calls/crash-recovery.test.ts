import { describe, expect, it } from "vitest";
import type { CallResult, CallStatus } from "../../../../../src/assistant/agent/port.ts";
import { deepEqual } from "../../../../../src/base/canonical-json.ts";
import { AgentHarness, userCaller } from "../../../../support/agent-harness.ts";
import { findOrderViolation } from "../../../../support/call-entry-order.ts";
import type { WrittenEntry } from "../../../../support/fake-ledger.ts";

/** The files on the disk and the effects of the tools when the daemon is killed at one moment. */
interface CrashSnapshot {
  readonly at: string;
  readonly dir: string;
  readonly entries: readonly WrittenEntry[];
  readonly notes: ReadonlyMap<string, unknown>;
  readonly received: readonly string[];
  /** The results that callers received before the kill. */
  readonly results: ReadonlyMap<number, CallResult>;
  /** The calls whose confirmation request or answer a caller has received. */
  readonly known: readonly number[];
}

/** Runs `scenario` and takes a snapshot before and after each write to the ledger, the journal or an app. */
async function takeCrashSnapshots(
  scenario: (
    harness: AgentHarness,
    tell: (callId: number, end: CallResult) => void,
  ) => Promise<void>,
): Promise<readonly CrashSnapshot[]> {
  const harness = await AgentHarness.open();
  const wrecks: CrashSnapshot[] = [];
  const results = new Map<number, CallResult>();
  const snapshot = (at: string) =>
    wrecks.push({
      at: `${wrecks.length} ${at}`,
      dir: harness.snapshot(),
      entries: harness.ledger.entries.slice(),
      notes: new Map(harness.notes),
      received: harness.app.received.map(({ name }) => name),
      results: new Map(results),
      known: harness.confirmationRequests.map(({ callId }) => callId),
    });
  harness.ledger.onAppend = ({ name }) => snapshot(`before ${name}`);
  harness.ledger.onCommit = () => snapshot(`after ${harness.ledger.entries.at(-1)?.name}`);
  harness.apps.fault = (step) => snapshot(`before ${step}`);
  harness.apps.after = (step) => snapshot(`after ${step}`);
  await scenario(harness, (callId, end) => {
    results.set(callId, end);
    snapshot(`answered ${callId}`);
  });
  return wrecks;
}

/** Starts a new daemon from a snapshot. */
async function reopenFrom(snapshot: CrashSnapshot): Promise<AgentHarness> {
  const harness = await AgentHarness.open({}, snapshot.dir, (fresh) => {
    fresh.ledger.entries.push(...snapshot.entries);
    for (const [id, note] of snapshot.notes) fresh.notes.set(id, note);
    fresh.ledger.restart();
  });
  await harness.clock.settle();
  return harness;
}

function countEffects(entries: readonly WrittenEntry[]): number {
  return entries.filter(({ name }) => name.endsWith(".dispatch")).length;
}

const scenarios: Record<string, Parameters<typeof takeCrashSnapshots>[0]> = {
  "a call that is confirmed and undone": async (harness, tell) => {
    const callId = await harness.park();
    tell(callId, await harness.agent.confirm(callId, true, userCaller()));
    await harness.agent.undo(userCaller());
  },
  "a call that runs at once and can be undone": async (harness, tell) => {
    const { callId, detail } = await harness.request("star", { title: "a" });
    tell(callId, { status: "executed", detail });
    await harness.agent.undo(userCaller());
  },
  "calls that are declined, expire and fail": async (harness, tell) => {
    const [first, second] = [await harness.park(), await harness.park()];
    tell(first, await harness.agent.confirm(first, false, userCaller()));
    await harness.clock.advance(301_000);
    const third = await harness.park("delete", { id: "none" });
    tell(third, await harness.agent.confirm(third, true, userCaller()));
    await harness.agent.confirm(second, true, userCaller());
  },
  "two concurrent calls that are both undone": async (harness, tell) => {
    const [first, second] = [await harness.park(), await harness.park()];
    await Promise.all(
      [first, second].map(async (callId) =>
        tell(callId, await harness.agent.confirm(callId, true, userCaller())),
      ),
    );
    await harness.agent.undo(userCaller());
    await harness.agent.undo(userCaller());
  },
};

describe.each(Object.entries(scenarios))(
  "after a kill of the daemon at any step of %s",
  (_, scenario) => {
    it("no effect happens without a ledger entry, and none happens twice", async () => {
      const wrecks = await takeCrashSnapshots(scenario);
      expect(wrecks.length).toBeGreaterThan(6);
      for (const snapshot of wrecks) {
        const faults = await findViolations(snapshot);
        expect({ at: snapshot.at, faults }).toEqual({ at: snapshot.at, faults: [] });
      }
    });
  },
);

/** Starts a daemon from the snapshot of a crash, and returns descriptions of the invariants that it violates. */
async function findViolations(snapshot: CrashSnapshot): Promise<string[]> {
  const faults: string[] = [];
  const check = (holds: boolean, fault: string) => {
    if (!holds) faults.push(fault);
  };
  const harness = await reopenFrom(snapshot);
  check(snapshot.received.length <= countEffects(snapshot.entries), "an effect without its entry");
  for (const callId of listCallIds(snapshot)) {
    const results = snapshot.results.get(callId);
    const { status, detail } = await harness.agent.confirm(callId, true, userCaller());
    const entryNames = harness.ledger.entryNamesOfCall(callId);
    const life = `${callId} ${entryNames.join(" ")}, and ${detail.code}`;
    if (results) {
      const same =
        deepEqual(detail, { ...results.detail, replayed: true }) && status === results.status;
      check(same, `another answer than before: ${life}`);
    } else if (snapshot.known.includes(callId))
      check(detail.code !== "unknown_call", `forgotten: ${life}`);
    check(findOrderViolation(entryNames) === undefined, `not in order: ${life}`);
    check(lastEnd(entryNames, status) === detail.code, `the journal is not the ledger: ${life}`);
  }
  check(
    harness.app.received.length === 0,
    "something ran by itself, or by being confirmed once more",
  );

  const before = harness.notes.size;
  const { status } = await harness.agent.undo(userCaller());
  check(status !== "undone" || harness.notes.size === before - 1, "undone, and nothing is gone");
  const written = countEffects(harness.ledger.entries) - countEffects(snapshot.entries);
  check(harness.app.received.length <= written, "an effect of the undo without its entry");
  return faults;
}

function listCallIds(snapshot: CrashSnapshot): ReadonlySet<number> {
  const written = snapshot.entries.map(({ fields }) => fields["call"]);
  return new Set([...snapshot.known, ...written.filter((call) => typeof call === "number")]);
}

/**
 * Returns the code that the journal must report for a call. The code follows from the last of the call's ledger entries
 * that end the call.
 */
function lastEnd(entryNames: readonly string[], status: CallStatus): string {
  const ends = entryNames.filter((step) => /^call\.(result|declined|expired)/.test(step));
  const last = ends.at(-1);
  // Recovery writes an end entry for each call that the daemon knows. So the daemon does not know a call without an end
  // entry.
  if (last === undefined) return status === "failed" ? "unknown_call" : "none";
  return last === "call.declined" ? "declined" : (last.split(":")[1] ?? "");
}
