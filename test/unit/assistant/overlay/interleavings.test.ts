import fc from "fast-check";
import { expect, test } from "vitest";
import { anyStep, nothingLeft, OverlayRun } from "../../../support/overlay-run.ts";

/** `BERTH_OVERLAY_RUNS=20000` looks longer; a failure prints its seed and path, which `fc.assert` takes again. */
const RUNS = Number(process.env["BERTH_OVERLAY_RUNS"] ?? 150);

test("whatever happens in whatever order, each query is told of in order, and nothing is left of it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 120, size: "max" }), async (steps) => {
      const run = new OverlayRun();
      for (const each of steps) await run.take(each);
      await run.drain();
      expect(run.leftovers()).toEqual(nothingLeft);
      expect(await run.world.overlay.status()).toMatchObject({
        state: "idle",
        active: 0,
        pending_confirmations: 0,
      });
      expect(await run.runningOfNine()).toBe(4);
      await run.world[Symbol.asyncDispose]();
    }),
    { numRuns: RUNS },
  );
}, 600_000);

test("the end of the companion in the midst of it ends every query, and leaves nothing", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 60, size: "max" }), async (steps) => {
      const run = new OverlayRun();
      for (const each of steps) await run.take(each);
      await run.world.overlay[Symbol.asyncDispose]();
      await run.world.settle();
      expect(run.leftovers()).toEqual(nothingLeft);
    }),
    { numRuns: RUNS },
  );
}, 600_000);
