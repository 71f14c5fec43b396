import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type {
  CoreLease,
  RequestPriority,
} from "../../../../../src/assistant/inference/inference-engine.ts";
import { CoreArbiter } from "../../../../../src/assistant/inference/models/core-arbiter.ts";
import type { Clock } from "../../../../../src/base/clock.ts";

const never = new AbortController().signal;

/** Returns true if the promise is settled. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  promise.then(
    () => (isSettled = true),
    () => (isSettled = true),
  );
  await new Promise(setImmediate);
  return isSettled;
}

function arbiter() {
  let nowMs = 0;
  const clock: Clock = { now: () => nowMs, setTimer: () => () => {} };
  const advance = (ms: number) => {
    nowMs += ms;
  };
  return { advance, arbiter: new CoreArbiter({ clock }) };
}

describe("the cores that models share", () => {
  test("are granted to a single model without waiting", async () => {
    const cores = arbiter().arbiter.createCores();
    for (let step = 0; step < 10; step++) await cores.hold("background", never);
    cores.release();
    expect(await settled(cores.hold("interactive", never))).toBe(true);
  });

  test("pass to interactive work at the next step of background work", async () => {
    const { arbiter: shared } = arbiter();
    const [slow, quick] = [shared.createCores(), shared.createCores()];
    await slow.hold("background", never);
    const wanted = quick.hold("interactive", never);
    expect(await settled(wanted)).toBe(false);
    const back = slow.hold("background", never);
    await wanted;
    expect(await settled(back)).toBe(false);
    quick.release();
    await back;
  });

  test("are kept by interactive work, except for one background step in two seconds", async () => {
    const { advance, arbiter: shared } = arbiter();
    const [quick, slow] = [shared.createCores(), shared.createCores()];
    await quick.hold("interactive", never);
    const waiting = slow.hold("background", never);
    advance(1_999);
    await quick.hold("interactive", never);
    expect(await settled(waiting)).toBe(false);
    advance(1);
    const interrupted = quick.hold("interactive", never);
    await waiting;
    expect(await settled(interrupted)).toBe(false);
    const more = slow.hold("background", never);
    await interrupted;
    expect(await settled(more)).toBe(false);
    quick.release();
    await more;
  });

  test("alternate between two models of the same class, a tenth of a second each", async () => {
    const { advance, arbiter: shared } = arbiter();
    const [one, other] = [shared.createCores(), shared.createCores()];
    await one.hold("interactive", never);
    const waiting = other.hold("interactive", never);
    advance(99);
    await one.hold("interactive", never);
    expect(await settled(waiting)).toBe(false);
    advance(1);
    const again = one.hold("interactive", never);
    await waiting;
    expect(await settled(again)).toBe(false);
  });

  test("are not granted to a cancelled request", async () => {
    const { arbiter: shared } = arbiter();
    const [one, other, third] = [shared.createCores(), shared.createCores(), shared.createCores()];
    await one.hold("interactive", never);
    const leaving = new AbortController();
    const left = other.hold("interactive", leaving.signal);
    const waiting = third.hold("background", never);
    leaving.abort(new Error("cancelled"));
    await expect(left).rejects.toThrow("cancelled");
    one.release();
    await waiting;
  });

  test("are held by one model at a time, which is notified when another model begins or stops waiting for them", async () => {
    const { arbiter: shared } = arbiter();
    const [one, other] = [shared.createCores(), shared.createCores()];
    const heard: boolean[] = [];
    one.onContest((contested) => heard.push(contested));
    await one.hold("interactive", never);
    const leaving = new AbortController();
    const waiting = other.hold("interactive", leaving.signal);
    leaving.abort(new Error("cancelled"));
    await expect(waiting).rejects.toThrow("cancelled");
    expect(heard).toEqual([true, false]);
  });

  test("are never held by two models at the same time, and no model waits forever", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            priority: fc.constantFrom<RequestPriority>("interactive", "background"),
            steps: fc.integer({ min: 1, max: 6 }),
            stepMs: fc.integer({ min: 1, max: 150 }),
          }),
          { minLength: 1, maxLength: 5 },
        ),
        async (models) => {
          const { advance, arbiter: shared } = arbiter();
          let computing = 0;
          const run = async (cores: CoreLease, model: (typeof models)[number]) => {
            for (let step = 0; step < model.steps; step++) {
              await cores.hold(model.priority, never);
              expect(++computing).toBe(1);
              advance(model.stepMs);
              await Promise.resolve();
              computing--;
            }
            cores.release();
          };
          await Promise.all(models.map((model) => run(shared.createCores(), model)));
        },
      ),
    );
  });
});
