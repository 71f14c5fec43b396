import { connectSessionBus } from "../src/dbus/connect-session-bus.ts";
import type { SessionBus } from "../src/dbus/port.ts";
import { TestSessionBus } from "../test/support/test-session-bus.ts";
import { type Figure, median, percentile } from "./report.ts";

/**
 * The number of rounds. Each round uses both connections in turn, so other load of the machine affects both equally.
 */
const TURNS = 200;
const CALLS = 100;

const getId = {
  destination: "org.freedesktop.DBus",
  path: "/org/freedesktop/DBus",
  interface: "org.freedesktop.DBus",
  member: "GetId",
  signature: "",
  args: [],
};

/**
 * Compares calls to a real dbus-daemon over two connections: one that can pass file descriptors, and one over a
 * plain Node socket.
 */
export async function benchBus(): Promise<Figure> {
  await using bus = await TestSessionBus.start();
  const { address } = bus;
  await using passing = await connectSessionBus({ address, negotiateFds: true });
  await using plain = await connectSessionBus({ address, negotiateFds: false });
  const took = { passing: [] as number[], plain: [] as number[] };
  for (let turn = 0; turn < TURNS; turn++) {
    took.passing.push(...(await callsOver(passing)));
    took.plain.push(...(await callsOver(plain)));
  }
  const ratio = median(took.passing) / median(took.plain);
  const microseconds = (values: readonly number[], share: number) =>
    `${(percentile(values, share) * 1000).toFixed(0)} us`;
  return {
    name: "bus: call over a connection that passes descriptors",
    value: microseconds(took.passing, 0.5),
    floor: `${microseconds(took.plain, 0.5)} (over Node's own socket)`,
    ratio: `${ratio.toFixed(2)}x`,
    aim: "< 1.15x",
    isMet: ratio < 1.15,
    notes: [
      `99th percentile: ${microseconds(took.passing, 0.99)} against ${microseconds(took.plain, 0.99)}`,
    ],
  };
}

async function callsOver(bus: SessionBus): Promise<number[]> {
  const took: number[] = [];
  for (let call = 0; call < CALLS; call++) {
    const start = performance.now();
    await bus.call(getId, { signal: new AbortController().signal, timeoutMs: 10_000 });
    took.push(performance.now() - start);
  }
  return took;
}
