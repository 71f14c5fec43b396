import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import dbus from "dbus-next";
import { afterEach, describe, expect, it } from "vitest";
import { BusServiceStarter } from "../../src/assistant/agent/mcp/activation/bus-service-starter.ts";
import { StarterChain } from "../../src/assistant/agent/mcp/activation/starter-chain.ts";
import { SystemdUnitStarter } from "../../src/assistant/agent/mcp/activation/systemd-unit-starter.ts";
import { systemClock } from "../../src/base/clock.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { SessionBus } from "../../src/dbus/port.ts";
import { examplePath } from "../support/example-app.ts";
import { getToolAppError, McpHarness } from "../support/mcp-harness.ts";
import { isProcessAlive } from "../support/processes.ts";
import { RawApp } from "../support/raw-app.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const NOTES = "org.example.Notes";

const parts: AsyncDisposable[] = [];
let bus: TestSessionBus;
let connection: SessionBus | undefined;
let harness: McpHarness;

afterEach(async () => {
  for (const part of parts.splice(0).toReversed()) await part[Symbol.asyncDispose]();
  connection = undefined;
});

/** Starts a bus with activation files, and an adapter that is connected to it. */
async function open(
  services: (dir: string) => Readonly<Record<string, string>>,
  activationMs = 10_000,
): Promise<void> {
  const way = { bus: () => connection, clock: systemClock, timeoutMs: 20_000 };
  harness = await McpHarness.open({
    limits: { activationTimeoutMs: activationMs },
    activator: () => new StarterChain([new BusServiceStarter(way), new SystemdUnitStarter(way)]),
  });
  bus = await TestSessionBus.start({ services: services(harness.dir) });
  parts.push(bus);
  connection = await connectSessionBus({ address: bus.address, negotiateFds: false });
  parts.push(connection, harness);
}

function serviceFile(name: string, command: string): Record<string, string> {
  const text = `[D-BUS Service]\nName=${name}\nExec=/bin/sh -c "${command}"\n`;
  return { [`${name}.service`]: text };
}

function notes(dir: string): string {
  const environment = `XDG_RUNTIME_DIR=${dir} XDG_DATA_HOME=${dir}/data`;
  const program = examplePath("notes-app/notes.mjs");
  return `echo started >> ${dir}/starts; exec env ${environment} ${process.execPath} ${program}`;
}

function callBusDaemon(member: string, name: string): Promise<string> {
  const dbusName = "org.freedesktop.DBus";
  return bus.gdbusCall(dbusName, "/org/freedesktop/DBus", `${dbusName}.${member}`, name);
}

async function findNotesPid(): Promise<number> {
  // The app creates its socket before it claims its bus name, so the test waits for the name.
  await expect.poll(() => callBusDaemon("NameHasOwner", NOTES)).toBe("(true,)");
  const answer = await callBusDaemon("GetConnectionUnixProcessID", NOTES);
  return Number(/uint32 (\d+)/.exec(answer)?.[1]);
}

async function countStarts(): Promise<number> {
  return (await readFile(join(harness.dir, "starts"), "utf8")).split("\n").length - 1;
}

describe("an app that the session bus can start", () => {
  it("is started only once for ten concurrent calls, and then owns its bus name", async () => {
    await open((dir) => serviceFile(NOTES, notes(dir)));
    const calls = Array.from({ length: 10 }, () => harness.call(NOTES, "list_notes", {}, true));
    for (const call of calls) expect((await call).structured).toEqual({ notes: [] });
    expect(await countStarts()).toBe(1);
    await expect.poll(() => callBusDaemon("NameHasOwner", NOTES)).toBe("(true,)");
  });

  it("exits when its bus exits", async () => {
    await open((dir) => serviceFile(NOTES, notes(dir)));
    await harness.call(NOTES, "list_notes", {}, true);
    const pid = await findNotesPid();
    await bus.kill();
    await expect.poll(() => isProcessAlive(pid)).toBe(false);
  });

  it("is started again if a crash left its socket behind", async () => {
    await open((dir) => serviceFile(NOTES, notes(dir)));
    await harness.call(NOTES, "list_notes", {}, true);
    process.kill(await findNotesPid(), "SIGKILL");
    await expect.poll(() => harness.apps.isConnected(NOTES)).toBe(false);
    await harness.call(NOTES, "list_notes", {}, true);
    expect(await countStarts()).toBe(2);
  });

  it("is started if the previous process releases the name only after the call began", async () => {
    await open((dir) => serviceFile(NOTES, notes(dir)));
    const dying = dbus.sessionBus({ busAddress: bus.address });
    await dying.requestName(NOTES, 0);
    const call = harness.call(NOTES, "list_notes", {}, true);
    call.catch(() => {});
    await expect.poll(() => readdir(harness.socketsDir).catch(() => undefined)).toBeDefined();
    // The exiting process still owns the bus name when the call asks the bus to start the app again.
    expect(await callBusDaemon("NameHasOwner", NOTES)).toBe("(true,)");
    dying.disconnect();
    expect((await call).structured).toEqual({ notes: [] });
  });

  it("is reported as app_unavailable immediately if it fails to start, and the error contains no path", async () => {
    await open(() => ({
      ...serviceFile(
        "org.example.Fails",
        "fails with app_unavailable at once if it cannot start, without a path in the message",
      ),
      "org.example.Gone.service":
        "[D-BUS Service]\nName=org.example.Gone\nExec=/nonexistent/program\n",
    }));
    for (const appId of ["org.example.Fails", "org.example.Gone"]) {
      const failure = await getToolAppError(harness.call(appId, "x", {}, true));
      expect(failure.code).toBe("app_unavailable");
      expect(failure.message).toContain(`the session bus could not start ${appId}`);
      expect(failure.message).not.toContain("nonexistent");
    }
  });

  it("is available before it is started, and other apps are not", async () => {
    await open((dir) => serviceFile(NOTES, notes(dir)));
    const isReachable = (appId: string) => harness.apps.isReachable({ appId, isActivatable: true });
    expect(await isReachable(NOTES)).toBe(true);
    expect(await isReachable("org.example.Other")).toBe(false);
    // An app that owns its name may be about to listen.
    const owner = dbus.sessionBus({ busAddress: bus.address });
    parts.push({ [Symbol.asyncDispose]: async () => owner.disconnect() });
    await owner.requestName("org.example.Other", 0);
    expect(await isReachable("org.example.Other")).toBe(true);
    expect(await callBusDaemon("NameHasOwner", NOTES)).toBe("(false,)");
    expect(await readdir(harness.dir)).not.toContain("starts");
  });

  it("but that never listens is reported as activation_timeout", async () => {
    await open(() => serviceFile("org.example.Sleeps", "exec sleep 5"), 1_000);
    const failure = await getToolAppError(harness.call("org.example.Sleeps", "x", {}, true));
    expect(failure.code).toBe("activation_timeout");
    expect(failure.message).toContain("within 1 s");
  });
});

describe("an app that the session bus cannot start", () => {
  it("is reported as app_unavailable if there is no systemd or no bus", async () => {
    await open(() => ({}));
    const unknown = await getToolAppError(harness.call(NOTES, "x", {}, true));
    expect(unknown.code).toBe("app_unavailable");
    expect(unknown.message).toContain("knows how to start it");
    connection = undefined;
    expect((await getToolAppError(harness.call(NOTES, "x", {}, true))).code).toBe(
      "app_unavailable",
    );
  });

  it("is started as the systemd unit with its name", async () => {
    await open(() => ({}));
    const asked: unknown[] = [];
    const systemd = dbus.sessionBus({ busAddress: bus.address });
    parts.push({ [Symbol.asyncDispose]: async () => systemd.disconnect() });
    await systemd.requestName("org.freedesktop.systemd1", 0);
    systemd.addMethodHandler((message: dbus.Message) => {
      const [unit] = message.body;
      if (message.member === "ListUnitsByNames") {
        const state = unit[0] === "org.example.Plain.service" ? "loaded" : "not-found";
        const row = [unit[0], "", state, "inactive", "dead", "", "/unit", 0, "", "/"];
        const reply = dbus.Message.newMethodReturn(message, "a(ssssssouso)", [[row]]);
        systemd.send(reply);
        return true;
      }
      if (message.member !== "StartUnit") return false;
      asked.push(message.body);
      if (unit === "org.example.Plain.service") {
        const [path, text] = ["/org/freedesktop/systemd1/job/1", "o"];
        systemd.send(dbus.Message.newMethodReturn(message, text, [path]));
        void RawApp.start(harness.socketsDir, "org.example.Plain").then((app) => parts.push(app));
        return true;
      }
      const what = unit === "org.example.Masked.service" ? "UnitMasked" : "NoSuchUnit";
      const name = `org.freedesktop.systemd1.${what}`;
      // The type declarations of dbus-next omit the first parameter of `newError`, the message.
      const newError: unknown = Reflect.get(dbus.Message, "newError");
      if (typeof newError !== "function") throw new Error("dbus-next has no newError");
      systemd.send(newError.call(dbus.Message, message, name, `Unit ${unit} is not there.`));
      return true;
    });
    await mkdir(harness.socketsDir, { recursive: true, mode: 0o700 });
    const isReachable = (appId: string) => harness.apps.isReachable({ appId, isActivatable: true });
    expect(await isReachable("org.example.Plain")).toBe(true);
    expect(await isReachable(NOTES)).toBe(false);
    const result = await harness.call("org.example.Plain", "echo", { a: 1 }, true);
    expect(result.structured).toEqual({ a: 1 });
    expect(asked).toEqual([["org.example.Plain.service", "replace"]]);
    const unknown = await getToolAppError(harness.call(NOTES, "x", {}, true));
    expect(unknown.message).toContain("knows how to start it");
    const masked = await getToolAppError(harness.call("org.example.Masked", "x", {}, true));
    expect(masked.message).toContain("systemctl --user status org.example.Masked.service");
  });
});
