import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { CompanionSupervisor } from "../../../../../src/controller/daemons/companion/companion-supervisor.ts";
import type {
  CompanionBus,
  CompanionChild,
  CompanionObservation,
} from "../../../../../src/controller/daemons/companion/port.ts";
import { BusCallError } from "../../../../../src/dbus/port.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const UPSTREAM = "http://127.0.0.1:7777";

/** A bus on which the test makes a companion appear and disappear. */
class FakeCompanionBus implements CompanionBus {
  isLost = false;
  observation: CompanionObservation = { owner: undefined, isInstalled: false };
  startsAsked = 0;
  endsAtOnce = false;
  /** The errors of the next starts, oldest first. */
  readonly startErrors: string[] = [];
  /** The number of the next observe() calls that fail because the bus does not answer. */
  silentObservations = 0;
  readonly #onChange: () => void;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  async observe(): Promise<CompanionObservation> {
    if (this.isLost) throw new BusCallError("org.freedesktop.DBus.Error.Disconnected", "lost");
    if (this.silentObservations > 0) {
      this.silentObservations -= 1;
      throw new BusCallError("org.freedesktop.DBus.Error.NoReply", "late");
    }
    return this.observation;
  }

  async start(): Promise<void> {
    this.startsAsked += 1;
    const error = this.startErrors.shift();
    if (error !== undefined)
      throw new BusCallError("org.freedesktop.DBus.Error.Spawn.ChildExited", error);
    if (!this.endsAtOnce) this.setObservation({ owner: { pid: 99, url: "http://127.0.0.1:7778" } });
  }

  setObservation(what: Partial<CompanionObservation>): void {
    this.observation = { ...this.observation, ...what };
    this.#onChange();
  }

  lose(): void {
    this.isLost = true;
    this.#onChange();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.isLost = true;
  }
}

/** A process that ends when the test or the supervisor ends it. */
class FakeChild implements CompanionChild {
  readonly ended: Promise<string>;
  readonly pid: number;
  readonly upstream: string;
  readonly ready: () => void;
  isTold = false;
  #end: (reason: string) => void = () => {};

  constructor(pid: number, upstream: string, onReady: (url: string) => void) {
    this.pid = pid;
    this.upstream = upstream;
    this.ready = () => onReady(`http://127.0.0.1:${7000 + pid}`);
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  dies(reason: string): void {
    this.#end(reason);
  }

  async end(): Promise<void> {
    this.isTold = true;
    this.#end("the process ended by itself");
    await this.ended;
  }
}

let clock: VirtualClock;
let hasBus: boolean;
let buses: FakeCompanionBus[];
let children: FakeChild[];
let prepare: (bus: FakeCompanionBus) => void;
let warnings: string[];
let supervisor: CompanionSupervisor;

beforeEach(() => {
  clock = new VirtualClock();
  hasBus = true;
  buses = [];
  children = [];
  prepare = () => {};
  warnings = [];
  supervisor = new CompanionSupervisor({
    openBus: async (onChange) => {
      if (!hasBus) return undefined;
      const bus = new FakeCompanionBus(onChange);
      prepare(bus);
      buses.push(bus);
      return bus;
    },
    startChild: ({ upstream, onReady }) => {
      const child = new FakeChild(children.length + 1, upstream, onReady);
      children.push(child);
      return child;
    },
    clock,
    logger: {
      ...silentLogger,
      warn: ({ reason }: { reason: string }) => warnings.push(reason),
    },
  });
});
afterEach(() => supervisor[Symbol.asyncDispose]());

async function begin(upstream: string | null = UPSTREAM): Promise<void> {
  supervisor.start();
  supervisor.setUpstream(upstream);
  await clock.settle();
}

function theBus(): FakeCompanionBus {
  return buses.at(-1) ?? expect.fail("nobody has asked for a bus");
}

function theChild(): FakeChild {
  return children.at(-1) ?? expect.fail("no child was started");
}

/** Makes the companion process own its bus names and report that it is ready. */
async function comesUp(): Promise<void> {
  theBus().setObservation({ owner: { pid: theChild().pid, url: null } });
  theChild().ready();
  await clock.settle();
}

/** Ends the companion process, and makes the bus report that its names have no owner. */
async function dies(reason = "the process was ended by SIGKILL"): Promise<void> {
  theChild().dies(reason);
  await clock.settle();
  theBus().setObservation({ owner: undefined });
  await clock.settle();
}

describe("if no process owns the bus names and no companion is installed for the bus", () => {
  test("Berth starts a companion process when the URL of the assistant is known", async () => {
    await begin(null);
    expect(supervisor.report()).toMatchObject({
      state: "starting",
      message: expect.stringContaining("waits for the assistant"),
    });
    expect(children).toEqual([]);
    supervisor.setUpstream(UPSTREAM);
    await clock.settle();
    expect(theChild().upstream).toBe(UPSTREAM);
    await comesUp();
    expect(supervisor.report()).toEqual({
      state: "up",
      url: "http://127.0.0.1:7001",
      pid: 1,
      starts: 1,
      message: null,
    });
    await supervisor[Symbol.asyncDispose]();
    expect(theChild().isTold).toBe(true);
  });

  test("Berth restarts its companion process a second after a kill, and after longer delays if it is killed again", async () => {
    await begin();
    await comesUp();
    await dies();
    expect(supervisor.report()).toMatchObject({ state: "waiting", pid: null, url: null });
    expect(supervisor.report().message).toBe(
      "the process was ended by SIGKILL; the next start is in 1 s",
    );
    await clock.advance(999);
    expect(children).toHaveLength(1);
    await clock.advance(1);
    expect(children).toHaveLength(2);
    expect(supervisor.report()).toMatchObject({
      state: "starting",
      message: "the process was ended by SIGKILL; the companion is being started again",
    });
    await dies();
    await clock.advance(1_999);
    expect(children).toHaveLength(2);
    await clock.advance(1);
    expect(children).toHaveLength(3);
    await comesUp();
    await clock.advance(60_000);
    await dies();
    expect(supervisor.report().message).toContain("in 1 s");
  });

  test("Berth warns once per reason if its companion process cannot start, and retries at least every five minutes", async () => {
    await begin();
    const reason = "port 7778 of 127.0.0.1 is taken by another program";
    for (let round = 0; round < 12; round++) {
      await dies(reason);
      await clock.advance(5 * 60_000);
    }
    expect(warnings).toEqual([reason]);
    expect(children).toHaveLength(13);
    expect(supervisor.report().starts).toBe(13);
    await dies("something else");
    expect(warnings).toEqual([reason, "something else"]);
    await clock.advance(5 * 60_000);
    await comesUp();
    await dies(reason);
    expect(warnings).toHaveLength(3);
  });

  test("the companion process is restarted when the URL of the assistant changes, but not while the assistant is unreachable", async () => {
    await begin();
    await comesUp();
    supervisor.setUpstream(null);
    supervisor.setUpstream(UPSTREAM);
    await clock.settle();
    expect(theChild().isTold).toBe(false);
    supervisor.setUpstream("http://127.0.0.1:4711");
    await clock.settle();
    expect(children[0]?.isTold).toBe(true);
    theBus().setObservation({ owner: undefined });
    await clock.advance(0);
    expect(children).toHaveLength(2);
    expect(theChild().upstream).toBe("http://127.0.0.1:4711");
    expect(warnings).toEqual([]);
  });

  test("Berth ends its companion process once a companion is installed, because the bus then starts the installed one", async () => {
    await begin();
    await comesUp();
    theBus().setObservation({ isInstalled: true });
    await clock.settle();
    expect(theChild().isTold).toBe(true);
    expect(theBus().startsAsked).toBe(0);
    theBus().setObservation({ owner: undefined });
    await clock.advance(0);
    expect(theBus().startsAsked).toBe(1);
    expect(children).toHaveLength(1);
    expect(supervisor.report()).toMatchObject({ state: "activated", pid: 99 });
  });
});

describe("if a companion is installed", () => {
  beforeEach(() => {
    prepare = (made) => made.setObservation({ isInstalled: true });
  });

  test("the bus is asked once to start the companion, and Berth does not restart it", async () => {
    await begin(null);
    expect(theBus().startsAsked).toBe(1);
    expect(supervisor.report()).toMatchObject({ state: "activated", url: "http://127.0.0.1:7778" });
    theBus().setObservation({ owner: undefined });
    await clock.advance(60 * 60_000);
    expect(theBus().startsAsked).toBe(1);
    expect(supervisor.report()).toMatchObject({
      state: "activated",
      pid: null,
      url: null,
      message: expect.stringContaining("for the first caller"),
    });
    theBus().setObservation({ owner: { pid: 100, url: null } });
    await clock.settle();
    expect(supervisor.report()).toMatchObject({ state: "activated", pid: 100 });
    // The companion is uninstalled, which ends its process; Berth then starts a child process.
    theBus().setObservation({ owner: undefined, isInstalled: false });
    supervisor.setUpstream(UPSTREAM);
    await clock.settle();
    expect(children).toHaveLength(1);
  });

  test("a companion that the bus cannot start is reported once, and retried", async () => {
    prepare = (made) => {
      made.setObservation({ isInstalled: true });
      made.startErrors.push("exited with status 1", "exited with status 1");
    };
    await begin();
    expect(supervisor.report()).toMatchObject({
      state: "waiting",
      message: expect.stringContaining("exited with status 1; the next start is in 1 s"),
    });
    await clock.advance(3_000);
    expect(theBus().startsAsked).toBe(3);
    expect(warnings).toEqual([expect.stringContaining("exited with status 1")]);
    expect(supervisor.report().state).toBe("activated");
    expect(children).toEqual([]);
  });

  test("a companion that ends right after its start is not started again in a loop", async () => {
    prepare = (made) => {
      made.setObservation({ isInstalled: true });
      made.endsAtOnce = true;
    };
    await begin();
    await clock.advance(60_000);
    expect(theBus().startsAsked).toBe(1);
    expect(supervisor.report()).toMatchObject({ state: "activated", pid: null });
  });

  test("a running companion is not touched", async () => {
    prepare = (made) => made.setObservation({ isInstalled: true, owner: { pid: 5, url: null } });
    await begin();
    expect(theBus().startsAsked).toBe(0);
    expect(supervisor.report()).toMatchObject({ state: "activated", pid: 5 });
  });
});

describe("if another process owns the bus names", () => {
  test("the other process is not touched; Berth starts a companion process when the other one ends", async () => {
    prepare = (made) => made.setObservation({ owner: { pid: 5, url: "http://127.0.0.1:7778" } });
    await begin();
    expect(supervisor.report()).toMatchObject({
      state: "foreign",
      pid: 5,
      url: "http://127.0.0.1:7778",
      starts: 0,
    });
    await clock.advance(60_000);
    expect(children).toEqual([]);
    theBus().setObservation({ owner: undefined });
    await clock.settle();
    expect(children).toHaveLength(1);
  });

  test("a companion process that loses the race for the bus names does not count as a failure", async () => {
    await begin();
    theBus().setObservation({ owner: { pid: 5, url: null } });
    theChild().dies("another program has the name");
    await clock.settle();
    expect(supervisor.report()).toMatchObject({ state: "foreign", pid: 5 });
    expect(warnings).toEqual([]);
  });

  test("a process that gets the bus names during a restart of the companion is reported; Berth starts the companion when that process ends", async () => {
    await begin();
    await dies();
    theBus().setObservation({ owner: { pid: 5, url: null } });
    await clock.settle();
    expect(supervisor.report()).toMatchObject({ state: "foreign", pid: 5 });
    // The child has ended, so the supervisor does not wait for it when the names become free.
    theBus().setObservation({ owner: undefined });
    await clock.settle();
    expect(children).toHaveLength(2);
  });
});

describe("the availability of the bus", () => {
  test("without a bus, nothing is started or reported, and the bus may appear later", async () => {
    hasBus = false;
    await begin();
    await clock.advance(60_000);
    expect(supervisor.report()).toMatchObject({ state: "no_bus", starts: 0 });
    expect(children).toEqual([]);
    expect(warnings).toEqual([]);
    hasBus = true;
    await clock.advance(15_000);
    expect(children).toHaveLength(1);
  });

  test("the loss of the bus ends the companion, and does not count as a failure", async () => {
    await begin();
    await comesUp();
    hasBus = false;
    theBus().lose();
    await clock.settle();
    expect(theChild().isTold).toBe(true);
    expect(supervisor.report()).toMatchObject({ state: "no_bus", pid: null, url: null });
    await clock.advance(60_000);
    expect(children).toHaveLength(1);
    hasBus = true;
    await clock.advance(15_000);
    expect(children).toHaveLength(2);
    expect(warnings).toEqual([]);
  });

  test("a companion that notices the loss of the bus before Berth does is not counted as failed", async () => {
    await begin();
    await comesUp();
    hasBus = false;
    theBus().isLost = true;
    theChild().dies("the process ended by itself");
    await clock.settle();
    expect(supervisor.report().state).toBe("no_bus");
    expect(warnings).toEqual([]);
  });

  test("a bus that does not answer for a while changes nothing", async () => {
    await begin();
    await comesUp();
    theBus().silentObservations = 3;
    theBus().setObservation({});
    await clock.advance(5_000);
    expect(theChild().isTold).toBe(false);
    expect(supervisor.report().state).toBe("up");
    await dies();
    expect(supervisor.report().state).toBe("waiting");
  });
});
