import { describe, expect, it } from "vitest";
import type { CallResult, CallStatus } from "../../../../../src/assistant/agent/port.ts";
import { deepEqual } from "../../../../../src/base/canonical-json.ts";
import { AgentHarness, userCaller } from "../../../../support/agent-harness.ts";
import { findOrderViolation } from "../../../../support/call-entry-order.ts";
import type { WrittenEntry } from "../../../../support/fake-ledger.ts";

/** All that is left when the daemon is killed at one moment. */
interface CrashSnapshot {
  readonly at: string;
  readonly dir: string;
  readonly entries: readonly WrittenEntry[];
  readonly notes: ReadonlyMap<string, unknown>;
  readonly received: readonly string[];
  /** Answers that somebody had got. */
  readonly told: ReadonlyMap<number, CallResult>;
  /** Calls that somebody had been asked about, or was answered of. */
  readonly known: readonly number[];
}

/** Plays `scenario`, and takes a wreck at each of its steps: before and after everything that others keep. */
async function takeCrashSnapshots(
  scenario: (world: AgentHarness, tell: (callId: number, end: CallResult) => void) => Promise<void>,
): Promise<readonly CrashSnapshot[]> {
  const world = await AgentHarness.open();
  const wrecks: CrashSnapshot[] = [];
  const told = new Map<number, CallResult>();
  const wreck = (at: string) =>
    wrecks.push({
      at: `${wrecks.length} ${at}`,
      dir: world.snapshot(),
      entries: world.ledger.entries.slice(),
      notes: new Map(world.notes),
      received: world.app.received.map(({ name }) => name),
      told: new Map(told),
      known: world.confirmationRequests.map(({ callId }) => callId),
    });
  world.ledger.onAppend = ({ name }) => wreck(`before ${name}`);
  world.ledger.onCommit = () => wreck(`after ${world.ledger.entries.at(-1)?.name}`);
  world.apps.fault = (step) => wreck(`before ${step}`);
  world.apps.after = (step) => wreck(`after ${step}`);
  await scenario(world, (callId, end) => {
    told.set(callId, end);
    wreck(`answered ${callId}`);
  });
  return wrecks;
}

/** Starts anew from a wreck. */
async function reopenFrom(wreck: CrashSnapshot): Promise<AgentHarness> {
  const world = await AgentHarness.open({}, wreck.dir, (fresh) => {
    fresh.ledger.entries.push(...wreck.entries);
    for (const [id, note] of wreck.notes) fresh.notes.set(id, note);
    fresh.ledger.restart();
  });
  await world.clock.settle();
  return world;
}

function effects(entries: readonly WrittenEntry[]): number {
  return entries.filter(({ name }) => name.endsWith(".dispatch")).length;
}

const scenarios: Record<string, Parameters<typeof takeCrashSnapshots>[0]> = {
  "a call that is confirmed, and undone": async (world, tell) => {
    const callId = await world.park();
    tell(callId, await world.agent.confirm(callId, true, userCaller()));
    await world.agent.undo(userCaller());
  },
  "a call that runs at once, and can be undone": async (world, tell) => {
    const { callId, detail } = await world.request("star", { title: "a" });
    tell(callId, { status: "executed", detail });
    await world.agent.undo(userCaller());
  },
  "calls that are declined, expire, and fail": async (world, tell) => {
    const [first, second] = [await world.park(), await world.park()];
    tell(first, await world.agent.confirm(first, false, userCaller()));
    await world.clock.advance(301_000);
    const third = await world.park("delete", { id: "none" });
    tell(third, await world.agent.confirm(third, true, userCaller()));
    await world.agent.confirm(second, true, userCaller());
  },
  "two calls at once, of which two are undone": async (world, tell) => {
    const [first, second] = [await world.park(), await world.park()];
    await Promise.all(
      [first, second].map(async (callId) =>
        tell(callId, await world.agent.confirm(callId, true, userCaller())),
      ),
    );
    await world.agent.undo(userCaller());
    await world.agent.undo(userCaller());
  },
};

describe.each(Object.entries(scenarios))("killed anywhere in %s", (_, scenario) => {
  it("leaves no effect without its entry, and nothing is done twice", async () => {
    const wrecks = await takeCrashSnapshots(scenario);
    expect(wrecks.length).toBeGreaterThan(6);
    for (const wreck of wrecks) {
      const faults = await faultsOf(wreck);
      expect({ at: wreck.at, faults }).toEqual({ at: wreck.at, faults: [] });
    }
  });
});

/** What is wrong with the next daemon's life, in words. */
async function faultsOf(wreck: CrashSnapshot): Promise<string[]> {
  const faults: string[] = [];
  const check = (holds: boolean, fault: string) => {
    if (!holds) faults.push(fault);
  };
  const world = await reopenFrom(wreck);
  check(wreck.received.length <= effects(wreck.entries), "an effect without its entry");
  for (const callId of callsOf(wreck)) {
    const told = wreck.told.get(callId);
    const { status, detail } = await world.agent.confirm(callId, true, userCaller());
    const story = world.ledger.entryNamesOfCall(callId);
    const life = `${callId} ${story.join(" ")}, and ${detail.code}`;
    if (told) {
      const same = deepEqual(detail, { ...told.detail, replayed: true }) && status === told.status;
      check(same, `another answer than before: ${life}`);
    } else if (wreck.known.includes(callId))
      check(detail.code !== "unknown_call", `forgotten: ${life}`);
    check(findOrderViolation(story) === undefined, `not in order: ${life}`);
    check(lastEnd(story, status) === detail.code, `the journal is not the ledger: ${life}`);
  }
  check(
    world.app.received.length === 0,
    "something ran by itself, or by being confirmed once more",
  );

  const before = world.notes.size;
  const { status } = await world.agent.undo(userCaller());
  check(status !== "undone" || world.notes.size === before - 1, "undone, and nothing is gone");
  const written = effects(world.ledger.entries) - effects(wreck.entries);
  check(world.app.received.length <= written, "an effect of the undo without its entry");
  return faults;
}

function callsOf(wreck: CrashSnapshot): ReadonlySet<number> {
  const written = wreck.entries.map(({ fields }) => fields["call"]);
  return new Set([...wreck.known, ...written.filter((call) => typeof call === "number")]);
}

/** The code of the call's last end in the ledger, as the journal should have it. */
function lastEnd(story: readonly string[], status: CallStatus): string {
  const ends = story.filter((step) => /^call\.(result|declined|expired)/.test(step));
  const last = ends.at(-1);
  // It was never begun.
  if (last === undefined) return status === "failed" ? "unknown_call" : "none";
  return last === "call.declined" ? "declined" : (last.split(":")[1] ?? "");
}
