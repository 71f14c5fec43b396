import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentHarness } from "../../../../support/agent-harness.ts";
import { AgentSimulation, agentSteps } from "../../../../support/agent-simulation.ts";

/** Number of random sequences; a thousand take about a minute. */
const RUNS = Number(process.env["BERTH_AGENT_RUNS"] ?? 40);

describe("random sequences of requests, answers, time, faults and restarts", () => {
  it(
    "give the same results as a simple model of the agent",
    async () => {
      const sequences = fc.array(agentSteps, { minLength: 5, maxLength: 40 });
      const agrees = fc.asyncProperty(sequences, async (sequence) => {
        const harness = await AgentHarness.open();
        const play = new AgentSimulation(harness);
        for (const step of sequence) await play.runStep(step);
        await play.finish();
        await harness.agent[Symbol.asyncDispose]();
      });
      await expect(fc.assert(agrees, { numRuns: RUNS })).resolves.toBeUndefined();
    },
    20_000 + RUNS * 200,
  );
});
