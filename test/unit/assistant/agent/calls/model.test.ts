import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AgentPlay, agentSteps } from "../../../../support/agent-model.ts";
import { AgentWorld } from "../../../../support/agent-world.ts";

/** Sequences; a thousand take about a minute. */
const RUNS = Number(process.env["BERTH_AGENT_RUNS"] ?? 40);

describe("any sequence of requests, answers, time, faults and restarts", () => {
  it(
    "comes to what a simple model of it comes to",
    async () => {
      const sequences = fc.array(agentSteps, { minLength: 5, maxLength: 40 });
      const agrees = fc.asyncProperty(sequences, async (sequence) => {
        const world = await AgentWorld.open();
        const play = new AgentPlay(world);
        for (const step of sequence) await play.play(step);
        await play.finish();
        await world.agent[Symbol.asyncDispose]();
      });
      await expect(fc.assert(agrees, { numRuns: RUNS })).resolves.toBeUndefined();
    },
    20_000 + RUNS * 200,
  );
});
