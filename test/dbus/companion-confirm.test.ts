import { expect, it } from "vitest";
import { CompanionClient } from "../support/companion-client.ts";
import { FaultHarness } from "../support/fault-harness.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";

/** The number of parked calls, each of which two connections answer at the same time. */
const ROUNDS = Number(process.env["BERTH_CONFIRM_BUS_ROUNDS"] ?? 200);
const LIMIT_MS = 120_000 + ROUNDS * 100;

it(
  "if two connections answer at the same time, each call is dispatched once, and both get the same result",
  async () => {
    await using harness = await FaultHarness.open();
    await harness.companion.start();
    const { client } = harness;
    await using other = await CompanionClient.connect(harness.bus, client.acknowledged);
    const dice = new Dice(SEED);
    process.stdout.write(`${ROUNDS} rounds, BERTH_SEED=${SEED}\n`);
    const executed = new Set<number>();
    const wins = { client: 0, other: 0 };
    for (let round = 0; round < ROUNDS; round += 1) {
      const here = `round ${round}`;
      const parked = await harness.request("make", `round-${round}`);
      if (parked?.status !== "confirm-chip") throw new Error(`${here}: ${parked?.status}`);
      // Sometimes one of the two connections declines; the first answer decides.
      const wishes = [!dice.chance(0.1), !dice.chance(0.1)] as const;
      const [first, second] = dice.chance(0.5) ? [client, other] : [other, client];
      const answers = await Promise.all([
        first.confirm(parked.callId, wishes[0]),
        second.confirm(parked.callId, wishes[1]),
      ]);
      const decided = answers.findIndex((answer) => answer?.detail.replayed !== true);
      const [one, two] = answers;
      expect([here, answers.filter((answer) => answer?.detail.replayed === true).length]).toEqual([
        here,
        1,
      ]);
      expect([here, one?.status, one?.detail.ledger]).toEqual([
        here,
        two?.status,
        two?.detail.ledger,
      ]);
      expect([here, one?.status]).toEqual([here, wishes[decided] ? "executed" : "denied"]);
      if (one?.status === "executed") executed.add(Number(parked.callId));
      wins[(decided === 0) === (first === client) ? "client" : "other"] += 1;
    }
    // Each of the two connections must decide some of the calls, so that the test covers both outcomes.
    expect(Math.min(wins.client, wins.other)).toBeGreaterThan(ROUNDS / 10);
    expect(harness.app.effects()).toHaveLength(executed.size);
    await expect.poll(() => harness.audit(true)).toEqual({ verdict: "whole", problems: [] });
    const dispatched = harness
      .entries()
      .filter(({ body }) => body.name === "agent.call.dispatch")
      .map(({ body }) => Number(body.fields["call"]));
    expect(dispatched).toHaveLength(executed.size);
    expect(new Set(dispatched)).toEqual(executed);
  },
  LIMIT_MS,
);
