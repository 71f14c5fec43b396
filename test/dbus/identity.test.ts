import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ProcessFiles } from "../../src/assistant/bus/identity/process-files.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const ACCESS_DENIED = "org.freedesktop.DBus.Error.AccessDenied";
const ping = { destination: CONTEXT, path: CONTEXT_PATH, interface: CONTEXT, member: "Ping" };

/** A substitute for /proc in which the test controls the identity of this process. */
let root: string;
const ownProcDir = () => path.join(root, String(process.pid));

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), "berth-proc-"));
  await mkdir(path.join(ownProcDir(), "root"), { recursive: true });
  await writeFile(path.join(ownProcDir(), "stat"), await readFile(`/proc/${process.pid}/stat`));
});
afterEach(async () => await rm(root, { recursive: true }));

async function startBusWith(
  callers: Caller[],
  options: Parameters<typeof BusHarness.start>[0],
): Promise<BusHarness> {
  const harness = await BusHarness.start(options);
  await harness.serveContext({
    Ping: ({ caller }) => {
      callers.push(caller);
      return ["berth test"];
    },
  });
  return harness;
}

test("the companion identifies a caller only once per connection", async () => {
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, {});
  await using raw = await RawBusClient.connect(harness.bus);
  await raw.call(ping);
  await raw.call(ping);
  expect(callers[0]).toMatchObject({ connection: raw.name, pid: process.pid });
  expect(callers[1]).toBe(callers[0]);
});

test("another user is denied every call", async () => {
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, { uid: 4_321 });
  await using raw = await RawBusClient.connect(harness.bus);
  const introspect = {
    ...ping,
    interface: "org.freedesktop.DBus.Introspectable",
    member: "Introspect",
  };
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect((await raw.errorOf(introspect)).name).toBe(ACCESS_DENIED);
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect(callers).toEqual([]);
});

test("a sandboxed app is identified by its sandbox", async () => {
  await writeFile(
    path.join(ownProcDir(), "root", ".flatpak-info"),
    "[Application]\nname=org.a.B\n",
  );
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, { processFiles: new ProcessFiles(root) });
  await using raw = await RawBusClient.connect(harness.bus);
  await raw.call(ping);
  expect(callers[0]?.app).toEqual({ id: "org.a.B", kind: "flatpak", hasNetwork: false });
});

test("a process that can no longer be identified is denied, not trusted", async () => {
  await rm(ownProcDir(), { recursive: true });
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, { processFiles: new ProcessFiles(root) });
  await using raw = await RawBusClient.connect(harness.bus);
  expect(await raw.errorOf(ping)).toMatchObject({
    name: ACCESS_DENIED,
    text: expect.stringMatching(/ended/),
  });
  expect(callers).toEqual([]);
});

test("a process whose id is reused during identification is denied", async () => {
  class Reused extends ProcessFiles {
    #start = 0;
    override async startTime(): Promise<string> {
      this.#start += 1;
      return String(this.#start);
    }
  }
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, { processFiles: new Reused() });
  await using raw = await RawBusClient.connect(harness.bus);
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect(callers).toEqual([]);
});

test("a process that is younger than its connection is denied, because its id was reused", async () => {
  const young = String(Math.ceil(os.uptime() * 100) + 6_000);
  const callers: Caller[] = [];
  class Young extends ProcessFiles {
    #asked = 0;
    override async startTime(pid: number): Promise<string | undefined> {
      this.#asked += 1;
      // The companion reads the caller's start time twice, and then its own start time to check the clock. The test
      // changes only the caller's start time.
      const isCaller = this.#asked < 3;
      return isCaller ? young : await super.startTime(pid);
    }
  }
  await using harness = await startBusWith(callers, { processFiles: new Young() });
  await using raw = await RawBusClient.connect(harness.bus);
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect(callers).toEqual([]);
});

test("no caller is treated as the user while sandboxes cannot be checked", async () => {
  const callers: Caller[] = [];
  class Exhausted extends ProcessFiles {
    #asked = 0;
    override async flatpakInfo(pid: number): ReturnType<ProcessFiles["flatpakInfo"]> {
      this.#asked += 1;
      if (this.#asked === 1) throw Object.assign(new Error("too many files"), { code: "EMFILE" });
      return await super.flatpakInfo(pid);
    }
  }
  await using harness = await startBusWith(callers, { processFiles: new Exhausted() });
  await using raw = await RawBusClient.connect(harness.bus);
  expect(await raw.errorOf(ping)).toMatchObject({ name: "dev.assistant.Error.Failed" });
  expect(callers).toEqual([]);
  // The daemon identifies the caller again at its next call on the same connection.
  await raw.call(ping);
  expect(callers).toHaveLength(1);
});

test("a caller that disconnects during identification is not served", async () => {
  const looked = deferred();
  const goOn = deferred();
  class Slow extends ProcessFiles {
    override async cgroup(): Promise<string> {
      looked.resolve();
      await goOn.promise;
      return "";
    }
  }
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, { processFiles: new Slow() });
  const raw = await RawBusClient.connect(harness.bus);
  raw.send({ ...ping, isReplyUnwanted: true });
  await looked.promise;
  const gone = deferred();
  harness.daemon.onDisconnect(raw.name, gone.resolve);
  raw.disconnect();
  await gone.promise;
  goOn.resolve();
  await using other = await RawBusClient.connect(harness.bus);
  await other.call(ping);
  await vi.waitFor(
    () => expect(callers.map(({ connection }) => connection)).toEqual([other.name]),
    WAIT_OPTIONS,
  );
});

test("only the bus can report that a connection has closed", async () => {
  const callers: Caller[] = [];
  await using harness = await startBusWith(callers, {});
  await using raw = await RawBusClient.connect(harness.bus);
  await using liar = await RawBusClient.connect(harness.bus);
  await raw.call(ping);
  const gone: string[] = [];
  harness.daemon.onDisconnect(raw.name, () => gone.push(raw.name));
  liar.send({
    destination: harness.daemon.uniqueName,
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    member: "NameOwnerChanged",
    signature: "sss",
    body: [raw.name, raw.name, ""],
    isSignal: true,
  });
  // The same connection sends a call after the forged signal, so the daemon has processed the signal by now.
  await liar.call(ping);
  await raw.call(ping);
  expect(gone).toEqual([]);
  expect(callers.at(-1)).toBe(callers[0]);
});

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let settle: (() => void) | undefined;
  const promise = new Promise<void>((resolve) => {
    settle = resolve;
  });
  return { promise, resolve: () => settle?.() };
}

test("a connection that has made no call can be identified, and leaves no state", async () => {
  await writeFile(
    path.join(ownProcDir(), "root", ".flatpak-info"),
    "[Application]\nname=org.example.App\n",
  );
  await using harness = await startBusWith([], { processFiles: new ProcessFiles(root) });
  const raw = await RawBusClient.connect(harness.bus);
  expect(await harness.daemon.identifyConnection(raw.name)).toMatchObject({
    connection: raw.name,
    app: { id: "org.example.App", kind: "flatpak" },
  });
  await raw[Symbol.asyncDispose]();
  await vi.waitFor(
    () => expect(harness.daemon.identifyConnection(raw.name)).rejects.toThrow(/name/i),
    WAIT_OPTIONS,
  );
  await using strangers = await startBusWith([], { uid: 4_321 });
  await using other = await RawBusClient.connect(strangers.bus);
  await expect(strangers.daemon.identifyConnection(other.name)).rejects.toThrow(
    "serves only the user",
  );
});
