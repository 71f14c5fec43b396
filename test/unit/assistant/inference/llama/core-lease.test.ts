import { describe, expect, it, vi } from "vitest";
import { CoreLeaseChild } from "../../../../../src/assistant/inference/llama/process/core-lease-child.ts";
import { CoreLeaseParent } from "../../../../../src/assistant/inference/llama/process/core-lease-parent.ts";
import type { FromChild } from "../../../../../src/assistant/inference/llama/process/ipc.ts";
import { CoreArbiter } from "../../../../../src/assistant/inference/models/core-arbiter.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const never = new AbortController().signal;

/**
 * Creates the two ends of a lease of CPU cores, in a model's process and in its parent, and a channel between them.
 * `sent` has the types of the messages to the parent.
 */
function modelProcess(arbiter: CoreArbiter) {
  const sent: FromChild["type"][] = [];
  const lent = new CoreLeaseParent(arbiter.createCores(), (message) =>
    queueMicrotask(() => {
      if (message.type === "granted") leased.onGranted(message.id);
      if (message.type === "contested") leased.setContested(message.contested);
    }),
  );
  const leased = new CoreLeaseChild((message) => {
    sent.push(message.type);
    queueMicrotask(() => {
      if (message.type === "hold") lent.hold(message.id, message.priority);
      if (message.type === "cancel-hold") lent.cancelHold(message.id);
      if (message.type === "release") lent.release();
    });
  });
  return { lent, leased, sent };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("cores leased to a model's process", () => {
  it("are requested with a single message, and then kept while no other model requests them", async () => {
    const { leased, sent } = modelProcess(new CoreArbiter({ clock: new VirtualClock() }));
    for (let step = 0; step < 100; step++) {
      await leased.hold("interactive", never);
      if (step % 10 === 9) leased.release();
    }
    expect(sent).toEqual(["hold"]);
  });

  it("are returned at once by an idle model", async () => {
    const arbiter = new CoreArbiter({ clock: new VirtualClock() });
    const [idle, busy] = [modelProcess(arbiter), modelProcess(arbiter)];
    await idle.leased.hold("interactive", never);
    idle.leased.release();
    await busy.leased.hold("background", never);
    expect(idle.sent).toEqual(["hold", "release"]);
  });

  it("are lent to interactive work between two steps of background work, and are then returned to the background work", async () => {
    const arbiter = new CoreArbiter({ clock: new VirtualClock() });
    const [background, interactive] = [modelProcess(arbiter), modelProcess(arbiter)];
    await background.leased.hold("background", never);
    const granted = vi.fn<() => void>();
    const wanted = interactive.leased.hold("interactive", never).then(granted);
    await settle();
    expect(granted).not.toHaveBeenCalled();
    const next = background.leased.hold("background", never);
    await wanted;
    interactive.leased.release();
    await next;
    expect(granted).toHaveBeenCalledOnce();
  });

  it("alternate between two models, so that neither starves", async () => {
    const clock = new VirtualClock();
    const arbiter = new CoreArbiter({ clock });
    const models = [modelProcess(arbiter), modelProcess(arbiter), modelProcess(arbiter)];
    const steps = [0, 0, 0];
    await Promise.all(
      models.map(async ({ leased }, index) => {
        for (let step = 0; step < 60; step++) {
          await leased.hold("interactive", never);
          await clock.advance(20);
          steps[index] = step + 1;
        }
        leased.release();
      }),
    );
    expect(steps).toEqual([60, 60, 60]);
  });

  it("are released when the process ends", async () => {
    const arbiter = new CoreArbiter({ clock: new VirtualClock() });
    const [dying, other] = [modelProcess(arbiter), modelProcess(arbiter)];
    await dying.leased.hold("interactive", never);
    const wanted = other.leased.hold("interactive", never);
    dying.lent[Symbol.dispose]();
    await wanted;
    expect(other.sent).toEqual(["hold"]);
  });

  it("are not kept by a cancelled request", async () => {
    const arbiter = new CoreArbiter({ clock: new VirtualClock() });
    const [holder, leaving, other] = [
      modelProcess(arbiter),
      modelProcess(arbiter),
      modelProcess(arbiter),
    ];
    await holder.leased.hold("interactive", never);
    const ending = new AbortController();
    const wanted = leaving.leased.hold("interactive", ending.signal);
    await settle();
    ending.abort(new Error("no more"));
    await expect(wanted).rejects.toThrow("no more");
    // The caller aborts its request after the arbiter has granted the cores, and before the grant reaches the caller.
    const late = new AbortController();
    const crossing = leaving.leased.hold("interactive", late.signal);
    holder.leased.release();
    late.abort(new Error("too late"));
    await expect(crossing).rejects.toThrow("too late");
    await settle();
    await other.leased.hold("interactive", never);
    expect(other.sent).toEqual(["hold"]);
  });
});
