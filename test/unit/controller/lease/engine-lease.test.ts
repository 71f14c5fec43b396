import { describe, expect, it, onTestFinished } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { EngineLease } from "../../../../src/controller/lease/engine-lease.ts";
import { FakeEngine } from "../../../support/fake-engine.ts";
import { type FakeCall, FakeRuntime } from "../../../support/fake-runtime.ts";
import { ProcessClock, VirtualClock } from "../../../support/virtual-clock.ts";

const INSTANCE = "0123abcd";

/** Servers, possibly on different machines, that have the same instance id and use one engine. */
class Machines {
  readonly clock = new VirtualClock();
  readonly engine = new FakeEngine(this.clock, {});

  /**
   * Starts a process on a data directory. `skewMs` is the difference between the clock of the process and that of the
   * engine.
   */
  start(holderId: string, options: { skewMs?: number; dieAfter?: number } = {}) {
    const time = new ProcessClock(this.clock);
    const skew = { ms: options.skewMs ?? 0 };
    const clock = {
      now: () => time.now() + skew.ms,
      setTimer: (ms: number, callback: () => void) => time.setTimer(ms, callback),
    };
    const runtime = new FakeRuntime({ clock, engine: this.engine });
    let calls = 0;
    const kill = () => {
      runtime.die();
      time.kill();
    };
    runtime.faults = {
      afterCall: () => {
        calls += 1;
        if (calls === options.dieAfter) kill();
      },
    };
    const lease = new EngineLease({
      runtime,
      clock,
      logger: silentLogger,
      instance: INSTANCE,
      holderId,
      host: `host-of-${holderId}`,
      dataDir: `/srv/${holderId}`,
    });
    const end = new AbortController();
    void lease.run(end.signal);
    onTestFinished(() => end.abort());
    return { lease, runtime, kill, skew };
  }

  terms(): string[] {
    return [...this.engine.leases.keys()];
  }
}

type Process = ReturnType<Machines["start"]>;

/** Returns `yes` if the process may write, or the code of the error. */
async function mayWrite({ lease }: Process): Promise<string> {
  return lease.ensure(new AbortController().signal).then(
    () => "yes",
    (error: unknown) => (error instanceof BerthError ? error.code : "another error"),
  );
}

const count = ({ runtime }: Process) =>
  [...runtime.calls.byName.values()].reduce((sum, calls) => sum + calls, 0);

describe("the lease of an instance on its engine", () => {
  it("lets the first process write, and refuses the second, which names the first", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    await machines.clock.advance(3_000);
    const second = machines.start("two");
    expect(await mayWrite(first)).toBe("yes");
    expect(await mayWrite(second)).toBe("engine_leased");
    expect(second.lease.otherWriter).toEqual({
      host: "host-of-one",
      dataDir: "/srv/one",
      since: "2030-01-01T00:00:00.000Z",
    });
    await expect(second.lease.ensure(new AbortController().signal)).rejects.toMatchObject({
      message: expect.stringMatching(/on host-of-one, data directory \/srv\/one, since 2030/),
      hint: expect.stringContaining("--new-instance"),
    });
    await machines.clock.advance(24 * 3_600_000);
    expect(await mayWrite(first)).toBe("yes");
    expect(await mayWrite(second)).toBe("engine_leased");
  });

  it("goes at once to a new process on the same data directory", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    expect(await mayWrite(first)).toBe("yes");
    first.kill();
    const next = machines.start("one");
    expect(await mayWrite(next)).toBe("yes");
    expect(machines.terms()).toHaveLength(1);
  });

  it("goes to a process on another data directory only 60 s after the last renewal", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    await machines.clock.advance(100_000);
    const second = machines.start("two");
    await machines.clock.advance(5_000);
    const lastTerm = machines.terms().at(-1);
    first.kill();
    let waitedMs = 0;
    for (; (await mayWrite(second)) !== "yes"; waitedMs += 1_000)
      await machines.clock.advance(1_000);
    // The holder renewed the lease for the last time at 100 s.
    expect(waitedMs).toBeGreaterThanOrEqual(55_000);
    expect(waitedMs).toBeLessThanOrEqual(65_000);
    expect(machines.terms()).not.toContain(lastTerm);
    expect(second.lease.otherWriter).toBeNull();
  });

  it("needs few calls: three in 20 s for the holder, one in 5 s for another process", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    const second = machines.start("two");
    await machines.clock.advance(1_000);
    const before = [count(first), count(second)];
    await machines.clock.advance(600_000);
    expect([count(first), count(second)]).toEqual([(before[0] ?? 0) + 90, (before[1] ?? 0) + 120]);
  });

  it.each([-3_600_000, 3_600_000, 10 * 365 * 86_400_000])(
    "does not depend on the clock of another machine, which differs by %d ms",
    async (skewMs) => {
      const machines = new Machines();
      const first = machines.start("one");
      const second = machines.start("two", { skewMs });
      await machines.clock.advance(600_000);
      expect(await mayWrite(first)).toBe("yes");
      expect(await mayWrite(second)).toBe("engine_leased");
      first.kill();
      await machines.clock.advance(50_000);
      expect(await mayWrite(second)).toBe("engine_leased");
      await machines.clock.advance(20_000);
      expect(await mayWrite(second)).toBe("yes");
    },
  );

  it("is not taken from a holder when the clock of the second process is set forward", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    const second = machines.start("two");
    await machines.clock.advance(7_000);
    second.skew.ms += 3_600_000;
    await machines.clock.advance(15_000);
    expect(await mayWrite(first)).toBe("yes");
    expect(await mayWrite(second)).toBe("engine_leased");
  });

  it("stops a holder that was suspended for longer than its lease, before it writes again", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    await machines.clock.advance(1_000);
    // The timers of the suspended process stop, and its wall clock continues.
    let isSuspended = true;
    first.runtime.faults = {
      beforeCall: () => {
        if (isSuspended) throw new BerthError("engine_unreachable", "suspended");
      },
    };
    const second = machines.start("two");
    await machines.clock.advance(90_000);
    expect(await mayWrite(second)).toBe("yes");
    isSuspended = false;
    expect(await mayWrite(first)).toBe("engine_leased");
    second.kill();
    await machines.clock.advance(70_000);
    expect(await mayWrite(first)).toBe("yes");
  });

  it("forbids writes while the engine cannot be reached, before another process takes over", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    const second = machines.start("two");
    await machines.clock.advance(20_000);
    first.runtime.faults = {
      beforeCall: () => {
        throw new BerthError("engine_unreachable", "the network is cut");
      },
    };
    const both = async () => [await mayWrite(first), await mayWrite(second)];
    for (let seconds = 0; seconds < 120; seconds += 1) {
      const allowed = (await both()).filter((answer) => answer === "yes");
      expect(allowed.length, `after ${seconds} s`).toBeLessThanOrEqual(1);
      await machines.clock.advance(1_000);
    }
    expect(await both()).toEqual(["engine_unreachable", "yes"]);
    first.runtime.faults = {};
    expect(await both()).toEqual(["engine_leased", "yes"]);
  });

  it("stays with the holder while another program removes the records", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    const second = machines.start("two");
    for (let minute = 0; minute < 10; minute += 1) {
      await machines.clock.advance(61_000);
      machines.engine.leases.clear();
      await machines.clock.advance(6_000);
      expect(await mayWrite(first)).toBe("yes");
      expect(await mayWrite(second)).toBe("engine_leased");
    }
  });

  it("stays with the holder on an engine without space, and goes to no other process", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    const second = machines.start("two");
    await machines.clock.advance(1_000);
    const noSpace = {
      beforeCall: (call: FakeCall) => {
        if (call.name === "createLease") throw new BerthError("disk_full", "no space left");
      },
    };
    first.runtime.faults = noSpace;
    second.runtime.faults = noSpace;
    await machines.clock.advance(600_000);
    expect(await mayWrite(first)).toBe("yes");
    expect(await mayWrite(second)).toBe("engine_leased");
    first.kill();
    const next = machines.start("one");
    next.runtime.faults = noSpace;
    expect(await mayWrite(next)).toBe("yes");
    await machines.clock.advance(60_000);
    expect(await mayWrite(next)).toBe("yes");
  });

  it("goes to one of two machines with byte-identical data directories", async () => {
    const machines = new Machines();
    const first = machines.start("clone");
    await machines.clock.advance(30_000);
    const second = machines.start("clone");
    expect(await mayWrite(second)).toBe("yes");
    await machines.clock.advance(300_000);
    expect(await mayWrite(second)).toBe("yes");
    expect(await mayWrite(first)).toBe("engine_leased");
  });

  it("goes to exactly one of many processes that wait for it", async () => {
    const machines = new Machines();
    const first = machines.start("one");
    await machines.clock.advance(1_000);
    first.kill();
    const others = ["a", "b", "c", "d", "e"].map((id) => machines.start(id));
    await machines.clock.advance(300_000);
    const answers = await Promise.all(others.map(mayWrite));
    expect(answers.filter((answer) => answer === "yes")).toHaveLength(1);
    expect(machines.terms()).toHaveLength(1);
  });

  it("survives a kill after each engine call: a new process on the same data directory continues at once", async () => {
    for (let dieAfter = 1; dieAfter <= 12; dieAfter += 1) {
      const machines = new Machines();
      machines.start("one", { dieAfter });
      await machines.clock.advance(100_000);
      const next = machines.start("one");
      expect(await mayWrite(next), `killed after call ${dieAfter}`).toBe("yes");
      await machines.clock.advance(30_000);
      expect(machines.terms(), `killed after call ${dieAfter}`).toHaveLength(1);
    }
  });

  it("survives a kill of the second process while it takes over", async () => {
    for (let dieAfter = 1; dieAfter <= 18; dieAfter += 1) {
      const machines = new Machines();
      const first = machines.start("one");
      await machines.clock.advance(1_000);
      first.kill();
      machines.start("two", { dieAfter });
      await machines.clock.advance(100_000);
      const third = machines.start("three");
      await machines.clock.advance(70_000);
      expect(await mayWrite(third), `killed after call ${dieAfter}`).toBe("yes");
      expect(machines.terms(), `killed after call ${dieAfter}`).toHaveLength(1);
    }
  });
});
