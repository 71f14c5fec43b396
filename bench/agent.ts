import { closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { defaultMcpLimits } from "../src/assistant/agent/mcp/mcp-limits.ts";
import { SocketTransport } from "../src/assistant/agent/mcp/socket-transport.ts";
import { systemClock } from "../src/base/clock.ts";
import { connectSessionBus } from "../src/dbus/connect-session-bus.ts";
import type { SessionBus } from "../src/dbus/port.ts";
import { CompanionProcess } from "../test/support/companion-process.ts";
import { ExampleApp, examplePath } from "../test/support/example-app.ts";
import { TestSessionBus } from "../test/support/test-session-bus.ts";
import { type Figure, median, percentile } from "./report.ts";

/** The number of calls on one connection, few enough that the companion refuses none because of its call limits. */
const CALLS = 150;
const WARM = 30;
const ROUNDS = 8;
const AGENT = {
  destination: "dev.assistant.Agent1",
  path: "/dev/assistant/Agent1",
  interface: "dev.assistant.Agent1",
};
const endless = new AbortController().signal;

/**
 * Compares a call of a read tool through the session bus, the policy and the ledger with the same call on the app's
 * socket, and with the unavoidable costs: a D-Bus round trip to Ping and a flush of the disk. The measurements
 * alternate in rounds. Needs dbus-daemon.
 */
export async function benchAgent(): Promise<Figure[]> {
  // The benchmark's files are in the working directory, because a /tmp in memory would make flushes cost nothing.
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-agent-"));
  await using bus = await TestSessionBus.start();
  await using companion = await CompanionProcess.prepare({
    bus,
    flags: ["--engine", "stub", "--data-dir", join(dir, "state")],
  });
  try {
    const manifest = "notes-app/org.example.Notes.json";
    await copyFile(examplePath(manifest), join(companion.manifestsDir, "org.example.Notes.json"));
    await companion.start();
    const { environment } = companion;
    const runtimeDir = environment["XDG_RUNTIME_DIR"] ?? "";
    await using app = await ExampleApp.start("notes-app/notes.mjs", { runtimeDir, environment });
    if (app.exitCode !== null) throw new Error("the notes app has ended");
    const mcp = await bareClient(join(companion.ready.apps_dir, "org.example.Notes.sock"));
    const flushed = openSync(join(dir, "flushed"), "w");
    try {
      return createFigures(await measure(bus.address, mcp, flushed));
    } finally {
      closeSync(flushed);
      await mcp.close();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

interface MeasuredTimes {
  readonly viaBus: number[];
  readonly bare: number[];
  readonly ping: number[];
  readonly flush: number[];
}

async function measure(address: string, mcp: Client, flushed: number): Promise<MeasuredTimes> {
  const took: MeasuredTimes = { viaBus: [], bare: [], ping: [], flush: [] };
  const block = Buffer.alloc(4_096, 1);
  const straight = () => mcp.callTool({ name: "list_notes", arguments: {} });
  const flush = () => {
    writeSync(flushed, block);
    fsyncSync(flushed);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    await using client = await connectSessionBus({ address, negotiateFds: false });
    await times(took.viaBus, () => requestCall(client));
    await times(took.bare, straight);
    await times(took.ping, () => busCall(client, "Ping", "", []));
    await times(took.flush, flush);
  }
  return took;
}

async function times(took: number[], act: () => unknown): Promise<void> {
  for (let call = 0; call < WARM + CALLS; call += 1) {
    const began = performance.now();
    await act();
    if (call >= WARM) took.push(performance.now() - began);
  }
}

function createFigures({ viaBus, bare, ping, flush }: MeasuredTimes): Figure[] {
  const [own, floor] = [median(viaBus), median(bare)];
  const needed = floor + median(ping) + median(flush);
  return [
    {
      name: "agent: RequestCall of a read tool, median",
      value: `${own.toFixed(2)} ms`,
      floor: `${floor.toFixed(2)} ms (a bare MCP call on the same socket)`,
      ratio: `${(own / floor).toFixed(2)}x`,
      aim: "< 1.5x",
      isMet: own / floor < 1.5,
      notes: [
        `p99 ${percentile(viaBus, 0.99).toFixed(2)} ms, of the bare call ${percentile(bare, 0.99).toFixed(2)} ms`,
        `a Ping over the same bus ${median(ping).toFixed(2)} ms, one write and flush ${median(flush).toFixed(2)} ms`,
        `call, Ping and flush together ${needed.toFixed(2)} ms: ${(own / needed).toFixed(2)}x`,
      ],
    },
  ];
}

async function requestCall(client: SessionBus): Promise<void> {
  const provenance = new Map([["provenance", { signature: "as", value: ["user"] }]]);
  const args = ["org.example.Notes", "list_notes", "{}", provenance];
  const [, disposition, detail] = await busCall(client, "RequestCall", "sssa{sv}", args);
  if (disposition !== "executed")
    throw new Error(`the call was not executed: ${JSON.stringify(detail)}`);
}

function busCall(
  client: SessionBus,
  member: string,
  signature: string,
  args: Parameters<SessionBus["call"]>[0]["args"],
) {
  return client.call({ ...AGENT, member, signature, args }, { signal: endless, timeoutMs: 30_000 });
}

async function bareClient(path: string): Promise<Client> {
  const socket = connect(path);
  await new Promise<void>((done, failed) => socket.once("connect", done).once("error", failed));
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(
    new SocketTransport({
      appId: "org.example.Notes",
      socket,
      clock: systemClock,
      limits: defaultMcpLimits,
      onEnded: () => {},
    }),
  );
  return client;
}
