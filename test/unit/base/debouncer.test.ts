import { describe, expect, it } from "vitest";
import { Debouncer } from "../../../src/base/debouncer.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

function timer() {
  const clock = new VirtualClock();
  const calls: number[] = [];
  const start = clock.now();
  const hints = new Debouncer(clock, () => calls.push(clock.now() - start));
  return { clock, calls, hints };
}

describe("Debouncer", () => {
  it("calls its function once, 50 ms after the last trigger()", async () => {
    const { clock, calls, hints } = timer();
    hints.trigger();
    await clock.advance(30);
    hints.trigger();
    await clock.advance(49);
    expect(calls).toEqual([]);
    await clock.advance(1000);
    expect(calls).toEqual([80]);
  });

  it("calls its function after 500 ms at the latest while trigger() is called again and again", async () => {
    const { clock, calls, hints } = timer();
    for (let at = 0; at < 1200; at += 20) {
      hints.trigger();
      await clock.advance(20);
    }
    expect(calls).toEqual([500, 1000]);
  });

  it("does not call its function for a trigger() before cancel()", async () => {
    const { clock, calls, hints } = timer();
    hints.trigger();
    hints.cancel();
    await clock.advance(1000);
    expect(calls).toEqual([]);
  });
});
