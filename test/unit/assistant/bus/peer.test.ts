import { describe, expect, it } from "vitest";
import { SharedUsage } from "../../../../src/assistant/bus/caller-usage.ts";
import { Peer } from "../../../../src/assistant/bus/peer.ts";
import type { Caller } from "../../../../src/assistant/caller.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const limits = { calls: { burst: 10, perSecond: 1 }, runningMax: 2, heldBytesMax: 100 };
const LIMITS_EXCEEDED = expect.objectContaining({
  busName: expect.stringMatching(/LimitsExceeded/),
});

class Connections {
  readonly clock = new VirtualClock();
  readonly #shared = new SharedUsage(limits, this.clock);
  #count = 0;

  /** A new connection of a sandboxed app, or of a program outside a sandbox. */
  connect(app?: string): Peer {
    this.#count += 1;
    const connection = `:1.${this.#count}`;
    const caller: Caller = {
      connection,
      pid: 1,
      app: app === undefined ? undefined : { id: app, kind: "flatpak" },
    };
    const identify = () => Promise.resolve(caller);
    return new Peer({ connection, limits, shared: this.#shared, clock: this.clock, identify });
  }

  async identified(app?: string): Promise<Peer> {
    const peer = this.connect(app);
    await peer.caller();
    return peer;
  }
}

describe("the connections of one sandboxed app", () => {
  it("may together have as many running calls as one connection", async () => {
    const connections = new Connections();
    const [one, two, three] = [
      await connections.identified("org.x"),
      await connections.identified("org.x"),
      await connections.identified("org.x"),
    ];
    const running = one.startCall();
    two.startCall();
    expect(() => three.startCall()).toThrow(LIMITS_EXCEEDED);
    running[Symbol.dispose]();
    three.startCall();
  });

  it("may together have as many bytes in running calls as one connection, and a refused call counts no bytes", async () => {
    const connections = new Connections();
    const [one, two] = [
      await connections.identified("org.x"),
      await connections.identified("org.x"),
    ];
    const held = one.countForApp(60);
    expect(() => two.countForApp(60)).toThrow(LIMITS_EXCEEDED);
    held?.[Symbol.dispose]();
    two.countForApp(60)?.[Symbol.dispose]();
    two.countForApp(100);
  });

  it("may together make calls at the rate of one connection", async () => {
    const connections = new Connections();
    for (let call = 0; call < 10; call += 1)
      (await connections.identified("org.x")).countForApp(1)?.[Symbol.dispose]();
    const next = await connections.identified("org.x");
    expect(() => next.countForApp(1)).toThrow(LIMITS_EXCEEDED);
    await connections.clock.advance(1_000);
    next.countForApp(1)?.[Symbol.dispose]();
  });

  it("do not reduce the limits of another app or of a program outside a sandbox", async () => {
    const connections = new Connections();
    const app = await connections.identified("org.x");
    for (let call = 0; call < 2; call += 1) {
      app.countForApp(50);
      app.startCall();
    }
    for (const other of ["org.y", undefined]) {
      const peer = await connections.identified(other);
      expect(() => peer.countForApp(100)).not.toThrow();
      expect(() => peer.startCall()).not.toThrow();
    }
  });
});

describe("connections outside a sandbox", () => {
  it("have separate limits", async () => {
    const connections = new Connections();
    for (let count = 0; count < 5; count += 1) {
      const peer = await connections.identified();
      peer.reserveBytes(100);
      peer.startCall();
      peer.startCall();
      expect(() => peer.startCall()).toThrow(LIMITS_EXCEEDED);
      expect(() => peer.reserveBytes(1)).toThrow(LIMITS_EXCEEDED);
    }
  });
});

describe("connections that are not identified yet", () => {
  it("may together have twice as many bytes in running calls as one connection", async () => {
    const connections = new Connections();
    const [one, two, three] = [connections.connect(), connections.connect(), connections.connect()];
    one.reserveBytes(100);
    const held = two.reserveBytes(100);
    expect(() => three.reserveBytes(1)).toThrow(LIMITS_EXCEEDED);
    held[Symbol.dispose]();
    three.reserveBytes(100);
    expect(() => connections.connect().reserveBytes(1)).toThrow(LIMITS_EXCEEDED);
    await one.caller();
    connections.connect().reserveBytes(100);
    expect(() => connections.connect().reserveBytes(1)).toThrow(LIMITS_EXCEEDED);
  });
});
