import fc from "fast-check";
import { expect, test } from "vitest";
import {
  nothingLeft,
  OverlaySimulation,
  overlaySteps,
} from "../../../support/overlay-simulation.ts";

/** `BERTH_OVERLAY_RUNS=20000` runs more sequences; a failure prints the seed and path that repeat it in `fc.assert`. */
const RUNS = Number(process.env["BERTH_OVERLAY_RUNS"] ?? 150);

test("in random sequences, the signals of each query are in order, and no state is left", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(overlaySteps, { maxLength: 120, size: "max" }), async (steps) => {
      const run = new OverlaySimulation();
      for (const each of steps) await run.runStep(each);
      await run.drain();
      expect(run.leftovers()).toEqual(nothingLeft);
      expect(await run.harness.overlay.status()).toMatchObject({
        state: "idle",
        active: 0,
        pending_confirmations: 0,
      });
      expect(await run.runningOfNine()).toBe(4);
      await run.harness[Symbol.asyncDispose]();
    }),
    { numRuns: RUNS },
  );
}, 600_000);

test("closing the companion at a random moment ends every query, and leaves no state", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(overlaySteps, { maxLength: 60, size: "max" }), async (steps) => {
      const run = new OverlaySimulation();
      for (const each of steps) await run.runStep(each);
      await run.harness.overlay[Symbol.asyncDispose]();
      await run.harness.settle();
      expect(run.leftovers()).toEqual(nothingLeft);
    }),
    { numRuns: RUNS },
  );
}, 600_000);
