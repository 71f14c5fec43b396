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

/** A /proc in which this process is what the test makes of it. */
let root: string;
const own = () => path.join(root, String(process.pid));

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), "berth-proc-"));
  await mkdir(path.join(own(), "root"), { recursive: true });
  await writeFile(path.join(own(), "stat"), await readFile(`/proc/${process.pid}/stat`));
});
afterEach(async () => await rm(root, { recursive: true }));

async function worldOf(
  callers: Caller[],
  options: Parameters<typeof BusHarness.start>[0],
): Promise<BusHarness> {
  const world = await BusHarness.start(options);
  await world.serveContext({
    Ping: ({ caller }) => {
      callers.push(caller);
      return ["berth test"];
    },
  });
  return world;
}

test("the system says who calls, and is asked once for each connection", async () => {
  const callers: Caller[] = [];
  await using world = await worldOf(callers, {});
  await using raw = await RawBusClient.connect(world.bus);
  await raw.call(ping);
  await raw.call(ping);
  expect(callers[0]).toMatchObject({ connection: raw.name, pid: process.pid });
  expect(callers[1]).toBe(callers[0]);
});

test("another user is denied everything", async () => {
  const callers: Caller[] = [];
  await using world = await worldOf(callers, { uid: 4_321 });
  await using raw = await RawBusClient.connect(world.bus);
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

test("a sandboxed app is what its sandbox says", async () => {
  await writeFile(path.join(own(), "root", ".flatpak-info"), "[Application]\nname=org.a.B\n");
  const callers: Caller[] = [];
  await using world = await worldOf(callers, { processFiles: new ProcessFiles(root) });
  await using raw = await RawBusClient.connect(world.bus);
  await raw.call(ping);
  expect(callers[0]?.app).toEqual({ id: "org.a.B", kind: "flatpak" });
});

test("a process that cannot be looked at any more is denied, not trusted", async () => {
  await rm(own(), { recursive: true });
  const callers: Caller[] = [];
  await using world = await worldOf(callers, { processFiles: new ProcessFiles(root) });
  await using raw = await RawBusClient.connect(world.bus);
  expect(await raw.errorOf(ping)).toMatchObject({
    name: ACCESS_DENIED,
    text: expect.stringMatching(/ended/),
  });
  expect(callers).toEqual([]);
});

test("a process whose id became another's in the middle is denied", async () => {
  class Reused extends ProcessFiles {
    #start = 0;
    override async startTime(): Promise<string> {
      this.#start += 1;
      return String(this.#start);
    }
  }
  const callers: Caller[] = [];
  await using world = await worldOf(callers, { processFiles: new Reused() });
  await using raw = await RawBusClient.connect(world.bus);
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect(callers).toEqual([]);
});

test("a process that is younger than its connection has the id of another", async () => {
  const young = String(Math.ceil(os.uptime() * 100) + 6_000);
  const callers: Caller[] = [];
  class Young extends ProcessFiles {
    #asked = 0;
    override async startTime(pid: number): Promise<string | undefined> {
      this.#asked += 1;
      // The third time it is the daemon, which wants to know how the machine's clock goes.
      const isCaller = this.#asked < 3;
      return isCaller ? young : await super.startTime(pid);
    }
  }
  await using world = await worldOf(callers, { processFiles: new Young() });
  await using raw = await RawBusClient.connect(world.bus);
  expect((await raw.errorOf(ping)).name).toBe(ACCESS_DENIED);
  expect(callers).toEqual([]);
});

test("nobody is taken for the user while the sandboxes cannot be looked at", async () => {
  const callers: Caller[] = [];
  class Exhausted extends ProcessFiles {
    #asked = 0;
    override async flatpakInfo(pid: number): ReturnType<ProcessFiles["flatpakInfo"]> {
      this.#asked += 1;
      if (this.#asked === 1) throw Object.assign(new Error("too many files"), { code: "EMFILE" });
      return await super.flatpakInfo(pid);
    }
  }
  await using world = await worldOf(callers, { processFiles: new Exhausted() });
  await using raw = await RawBusClient.connect(world.bus);
  expect(await raw.errorOf(ping)).toMatchObject({ name: "dev.assistant.Error.Failed" });
  expect(callers).toEqual([]);
  // Not for the rest of the connection's life.
  await raw.call(ping);
  expect(callers).toHaveLength(1);
});

test("a caller that goes while it is looked at is not served", async () => {
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
  await using world = await worldOf(callers, { processFiles: new Slow() });
  const raw = await RawBusClient.connect(world.bus);
  raw.send({ ...ping, isReplyUnwanted: true });
  await looked.promise;
  const gone = deferred();
  world.daemon.onDisconnect(raw.name, gone.resolve);
  raw.disconnect();
  await gone.promise;
  goOn.resolve();
  await using other = await RawBusClient.connect(world.bus);
  await other.call(ping);
  await vi.waitFor(
    () => expect(callers.map(({ connection }) => connection)).toEqual([other.name]),
    WAIT_OPTIONS,
  );
});

test("only the bus says who has gone", async () => {
  const callers: Caller[] = [];
  await using world = await worldOf(callers, {});
  await using raw = await RawBusClient.connect(world.bus);
  await using liar = await RawBusClient.connect(world.bus);
  await raw.call(ping);
  const gone: string[] = [];
  world.daemon.onDisconnect(raw.name, () => gone.push(raw.name));
  liar.send({
    destination: world.daemon.uniqueName,
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    member: "NameOwnerChanged",
    signature: "sss",
    body: [raw.name, raw.name, ""],
    isSignal: true,
  });
  // Behind it on the same connection.
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

test("who never calls can be looked at as well, and nothing of it is kept", async () => {
  await writeFile(
    path.join(own(), "root", ".flatpak-info"),
    "[Application]\nname=org.example.App\n",
  );
  await using world = await worldOf([], { processFiles: new ProcessFiles(root) });
  const raw = await RawBusClient.connect(world.bus);
  expect(await world.daemon.identifyConnection(raw.name)).toMatchObject({
    connection: raw.name,
    app: { id: "org.example.App", kind: "flatpak" },
  });
  await raw[Symbol.asyncDispose]();
  await vi.waitFor(
    () => expect(world.daemon.identifyConnection(raw.name)).rejects.toThrow(/name/i),
    WAIT_OPTIONS,
  );
  await using strangers = await worldOf([], { uid: 4_321 });
  await using other = await RawBusClient.connect(strangers.bus);
  await expect(strangers.daemon.identifyConnection(other.name)).rejects.toThrow("nobody else");
});
