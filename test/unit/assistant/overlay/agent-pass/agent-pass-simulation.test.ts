import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentPassHarness } from "../../../../support/agent-pass-harness.ts";
import { AgentPassSimulation, simulatedTurns } from "../../../../support/agent-pass-simulation.ts";

const RUNS = 25;

describe("random models, answers and aborted turns", () => {
  it(
    "cause no effect without permission, and leave no call waiting for confirmation after the turn",
    async () => {
      const dispatched = { reads: 0, effects: 0 };
      const turns = fc.array(simulatedTurns, { minLength: 1, maxLength: 8 });
      const holds = fc.asyncProperty(turns, async (list) => {
        const harness = await AgentPassHarness.open();
        const play = new AgentPassSimulation(harness);
        for (const turn of list) await play.runTurn(turn);
        await harness.pass[Symbol.asyncDispose]();
        await harness.agentHarness.agent[Symbol.asyncDispose]();
        dispatched.reads += play.dispatched.reads;
        dispatched.effects += play.dispatched.effects;
      });
      await expect(fc.assert(holds, { numRuns: RUNS })).resolves.toBeUndefined();
      expect(dispatched.reads).toBeGreaterThan(0);
      expect(dispatched.effects).toBeGreaterThan(0);
    },
    20_000 + RUNS * 500,
  );
});
