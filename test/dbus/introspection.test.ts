import { expect, onTestFinished, test } from "vitest";
import { serveAgent } from "../../src/assistant/agent/bus.ts";
import { readInterfaces } from "../../src/assistant/bus/read-interfaces.ts";
import { serveContext } from "../../src/assistant/context/bus.ts";
import { serveLedger } from "../../src/assistant/ledger/bus.ts";
import { systemClock } from "../../src/base/clock.ts";
import { AgentHarness } from "../support/agent-harness.ts";
import { BusHarness, createFakeContextService } from "../support/bus-harness.ts";
import { runGiClient } from "../support/gi-client.ts";

/**
 * The expected interfaces, written by hand from the runtime's specification and later additions, independently of
 * the files in dbus/interfaces/.
 */
const contract: Readonly<Record<string, unknown>> = {
  "dev.assistant.Agent1": {
    methods: {
      Ping: " -> s",
      ListTools: " -> s",
      Discover: "s -> s",
      DiscoverState: " -> s",
      RequestCall: "sssa{sv} -> tss",
      Confirm: "tb -> ss",
      Undo: " -> s",
      ListParked: " -> s",
      UndoCall: "t -> s",
      UndoSkip: "t -> s",
      RegisterConfirmer: " -> ",
      ApproveTool: "sss -> ",
    },
    signals: { ConfirmationRequested: "ts", CallResolved: "ts" },
    properties: { TrustedProvenance: "as", Version: "u" },
  },
  "dev.assistant.Context1": {
    methods: {
      Ping: " -> s",
      Search: "sa{sv} -> s",
      MemoryGet: "ss -> s",
      MemorySet: "sss -> ",
      MemoryList: "s -> s",
      MemoryApps: " -> s",
      MemoryWipe: "s -> ",
      IndexState: " -> s",
    },
    signals: {},
    properties: { Version: "u" },
  },
  "dev.assistant.Ledger1": {
    methods: { Ping: " -> s", EraseTexts: "s -> s" },
    signals: {},
    properties: { Version: "u" },
  },
  "dev.assistant.Inference1": {
    methods: { Ping: " -> s", OpenSession: "a{sv} -> oh" },
    signals: {},
    properties: { Version: "u" },
  },
  "dev.assistant.Inference1.Session": {
    methods: { Generate: "sa{sv} -> ", Embed: "as -> aad", Cancel: " -> ", Close: " -> " },
    signals: { Finished: "ss" },
    properties: { State: "s", Version: "u" },
  },
};

const standard = {
  "org.freedesktop.DBus.Properties": {
    methods: { Get: "ss -> v", GetAll: "s -> a{sv}", Set: "ssv -> " },
    signals: { PropertiesChanged: "sa{sv}as" },
    properties: {},
  },
  "org.freedesktop.DBus.Introspectable": {
    methods: { Introspect: " -> s" },
    signals: {},
    properties: {},
  },
  "org.freedesktop.DBus.Peer": {
    methods: { Ping: " -> ", GetMachineId: " -> s" },
    signals: {},
    properties: {},
  },
};

const session = "/dev/assistant/Inference1/session/7";

const nothing = () => [];

async function serveAllInterfaces(): Promise<BusHarness> {
  const harness = await BusHarness.start();
  const { daemon: bus } = harness;
  const { agent } = await AgentHarness.open();
  onTestFinished(() => agent[Symbol.asyncDispose]());
  serveAgent({ bus, service: agent, daemon: "berth test" });
  serveContext({ bus, service: createFakeContextService(), daemon: "berth test" });
  const ledger = { eraseBefore: () => Promise.reject(new Error("not called")) };
  serveLedger({ bus, ledger, clock: systemClock, daemon: "berth test" });
  bus.serve("/dev/assistant/Inference1", {
    name: "dev.assistant.Inference1",
    methods: { Ping: nothing, OpenSession: nothing },
    properties: { Version: () => 1 },
  });
  bus.serve(session, {
    name: "dev.assistant.Inference1.Session",
    methods: { Generate: nothing, Embed: nothing, Cancel: nothing, Close: nothing },
    properties: { State: () => "open", Version: () => 1 },
  });
  for (const name of ["Agent1", "Context1", "Inference1"]) {
    await bus.requestName(`dev.assistant.${name}`);
  }
  return harness;
}

test("a client that is generated from introspection has the specified signatures", async () => {
  await using harness = await serveAllInterfaces();
  const at = async (path: string) =>
    await runGiClient(harness.bus, "signatures", harness.daemon.uniqueName, path);
  for (const [name, path] of [
    ["dev.assistant.Agent1", "/dev/assistant/Agent1"],
    ["dev.assistant.Context1", "/dev/assistant/Context1"],
    ["dev.assistant.Ledger1", "/dev/assistant/Ledger1"],
    ["dev.assistant.Inference1", "/dev/assistant/Inference1"],
    ["dev.assistant.Inference1.Session", session],
  ] as const) {
    expect(await at(path)).toMatchObject({ interfaces: { [name]: contract[name], ...standard } });
    const own = Object.keys((await readInterfacesAt(harness, path)) ?? {});
    expect(own.toSorted()).toEqual([name, ...Object.keys(standard)].toSorted());
  }
});

test("every method that passes a descriptor has the annotation that generators for GLib need", async () => {
  await using harness = await serveAllInterfaces();
  const found: string[] = [];
  for (const { name, methods, xml } of readInterfaces().values()) {
    for (const [method, { inSignature, outSignature }] of methods) {
      const [, body = ""] = new RegExp(`<method name="${method}">([^]*?)</method>`).exec(xml) ?? [];
      const isMarked = body.includes('<annotation name="org.gtk.GDBus.C.UnixFD" value="true"/>');
      expect(isMarked, `${name}.${method}`).toBe(`${inSignature}${outSignature}`.includes("h"));
      if (isMarked) found.push(method);
    }
  }
  expect(found.toSorted()).toEqual(["OpenSession", "SetKeyFd"]);
  const served = await harness.bus.gdbusIntrospect(
    "dev.assistant.Inference1",
    "/dev/assistant/Inference1",
  );
  expect(served).toMatch(
    /<method name="OpenSession">\s*<annotation name="org\.gtk\.GDBus\.C\.UnixFD"/,
  );
});

test("gdbus lists the specified interfaces, and the child nodes on the path to each object", async () => {
  await using harness = await serveAllInterfaces();
  const xml = await harness.bus.gdbusIntrospect("dev.assistant.Agent1", "/dev/assistant/Agent1");
  expect(xml).toContain('<method name="RequestCall">');
  expect(xml).toContain("EmitsChangedSignal");
  const children = async (path: string) => {
    const text = await harness.bus.gdbusIntrospect(harness.daemon.uniqueName, path);
    return [...text.matchAll(/<node name="(\w+)"/g)].map(([, name]) => name);
  };
  expect(await children("/")).toEqual(["dev"]);
  expect(await children("/dev/assistant")).toEqual(["Agent1", "Context1", "Inference1", "Ledger1"]);
  expect(await children("/dev/assistant/Inference1")).toEqual(["session"]);
  expect(await children("/dev/assistant/Inference1/session")).toEqual(["7"]);
});

test("a removed object disappears from introspection, and so do the nodes on its path", async () => {
  await using harness = await BusHarness.start();
  const remove = harness.daemon.serve(session, {
    name: "dev.assistant.Inference1.Session",
    methods: { Generate: () => [], Embed: () => [], Cancel: () => [], Close: () => [] },
    properties: { State: () => "open", Version: () => 1 },
  });
  const { uniqueName } = harness.daemon;
  expect(await harness.bus.gdbusIntrospect(uniqueName, "/dev")).toContain('"assistant"');
  remove();
  remove();
  await expect(harness.bus.gdbusIntrospect(uniqueName, "/dev")).rejects.toMatchObject({
    busName: "org.freedesktop.DBus.Error.UnknownObject",
  });
});

test("a served interface must implement exactly what its introspection file declares", async () => {
  await using harness = await BusHarness.start();
  const methods = { Generate: () => [], Embed: () => [], Cancel: () => [] };
  const properties = { State: () => "open", Version: () => 1 };
  const name = "dev.assistant.Inference1.Session";
  const serve = (more: object) =>
    harness.daemon.serve(session, { name, methods: { ...methods, ...more }, properties });
  expect(() => serve({})).toThrow(TypeError);
  expect(() => serve({ Close: () => [], Extra: () => [] })).toThrow(TypeError);
  serve({ Close: () => [] });
  expect(() => serve({ Close: () => [] })).toThrow(TypeError);
});

async function readInterfacesAt(harness: BusHarness, path: string): Promise<object | undefined> {
  const found = await runGiClient(harness.bus, "signatures", harness.daemon.uniqueName, path);
  const isObject = typeof found === "object" && found !== null && "interfaces" in found;
  return isObject && typeof found.interfaces === "object" && found.interfaces !== null
    ? found.interfaces
    : undefined;
}
