import { Variant } from "dbus-next";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { BusHarness, CONTEXT, CONTEXT_PATH } from "../support/bus-harness.ts";
import { runGiClient } from "../support/gi-client.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";

const standardError = (name: string) => `org.freedesktop.DBus.Error.${name}`;
const PROPERTIES = "org.freedesktop.DBus.Properties";
const SECRET = "sk-canary-1234";

let harness: BusHarness;
let raw: RawBusClient;

beforeAll(async () => {
  harness = await BusHarness.start();
  await harness.serveContext({
    MemoryGet: ({ args: [app] }) => {
      if (app === "missing") throw new AssistantError("not_found", "there is\nno\u0000 such key");
      if (app === "wrong") return [7];
      throw new Error(`${SECRET} in /root/secret.txt`);
    },
    MemoryList: () => ["a", "b"],
  });
  raw = await RawBusClient.connect(harness.bus);
});
afterAll(async () => {
  await raw[Symbol.asyncDispose]();
  await harness[Symbol.asyncDispose]();
});

const call = {
  destination: CONTEXT,
  path: CONTEXT_PATH,
  interface: CONTEXT,
  member: "MemoryGet",
  signature: "ss",
  body: ["app", "key"],
};

describe("calls over D-Bus", () => {
  test.each([
    ["another type", { signature: "si", body: ["app", 1] }, "InvalidArgs"],
    ["too many arguments", { signature: "sss", body: ["a", "b", "c"] }, "InvalidArgs"],
    ["no argument", { signature: "", body: [] }, "InvalidArgs"],
    ["the right types in a struct", { signature: "(ss)", body: [["a", "b"]] }, "InvalidArgs"],
    ["a variant", { signature: "v", body: [new Variant("s", "a")] }, "InvalidArgs"],
    ["another path", { path: "/dev/assistant/Agent1" }, "UnknownObject"],
    ["the root", { path: "/" }, "UnknownInterface"],
    ["a path that only has children", { path: "/dev/assistant" }, "UnknownInterface"],
    ["a child of the object", { path: `${CONTEXT_PATH}/x` }, "UnknownObject"],
    ["another interface", { interface: "dev.assistant.Context2" }, "UnknownInterface"],
    ["an interface of another object", { interface: "dev.assistant.Agent1" }, "UnknownInterface"],
    ["an unknown method", { member: "MemoryPut" }, "UnknownMethod"],
    ["a method in another case", { member: "memoryGet" }, "UnknownMethod"],
    ["the name of an inherited JavaScript member", { member: "constructor" }, "UnknownMethod"],
    ["the name of the prototype accessor", { member: "__proto__" }, "UnknownMethod"],
    [
      "a signal as a method",
      { member: "PropertiesChanged", interface: PROPERTIES },
      "UnknownMethod",
    ],
  ])("a call with %s is rejected", async (_, change, name) => {
    const error = await raw.errorOf({ ...call, ...change });
    expect(error.name).toBe(standardError(name));
    expect(error.text).toMatch(/^[^\n]{10,300}$/);
  });

  test.each(["{'limit': <uint32 1>, 'limit': <uint32 9>}", "{'a': <{'b': <1>, 'b': <2>}>}"])(
    "a call whose options have the same key twice is rejected: %s",
    async (options) => {
      const search = [CONTEXT, CONTEXT_PATH, `${CONTEXT}.Search`, "'x'"] as const;
      expect(await harness.bus.gdbusCall(...search, "{'limit': <uint32 1>}")).toBe("('',)");
      await expect(harness.bus.gdbusCall(...search, options)).rejects.toMatchObject({
        busName: standardError("InvalidArgs"),
        text: expect.stringMatching(/the key "(limit|b)" is in a dictionary twice/),
      });
    },
  );

  test("a call that names no interface finds the method by its name", async () => {
    const { interface: _, ...bare } = call;
    const found = await raw.errorOf({ ...bare, body: ["missing", "key"] });
    expect(found.name).toBe("dev.assistant.Error.NotFound");
    const ping = { ...bare, member: "Ping", signature: "", body: [] };
    // The Peer interface also has a method Ping, but the object's own method has priority.
    expect(await raw.call(ping)).toEqual(["berth test"]);
    expect(await raw.call({ ...ping, path: "/dev" })).toEqual([]);
    const introspect = await raw.call({ ...ping, member: "Introspect" });
    expect(introspect[0]).toContain(CONTEXT);
    const unknown = await raw.errorOf({ ...bare, member: "Nothing" });
    expect(unknown.name).toBe(standardError("UnknownMethod"));
  });

  test("an AssistantError has its D-Bus name and one line of text", async () => {
    expect(await raw.errorOf({ ...call, body: ["missing", "key"] })).toEqual({
      name: "dev.assistant.Error.NotFound",
      text: "there is no such key",
    });
  });

  test.each(["broken", "wrong"])(
    "the caller learns no details of an unexpected error (%s)",
    async (app) => {
      const before = harness.logged.length;
      const error = await raw.errorOf({ ...call, body: [app, "key"] });
      expect(error.name).toBe("dev.assistant.Error.Failed");
      expect(error.text).not.toMatch(/canary|\/|Error|\bat /);
      expect(harness.logged.slice(before)).toMatchObject([
        { level: "error", fields: { member: "MemoryGet" } },
      ]);
    },
  );

  test("values that do not match the introspection XML are not sent", async () => {
    const error = await raw.errorOf({ ...call, member: "MemoryList", signature: "s", body: ["a"] });
    expect(error.name).toBe("dev.assistant.Error.Failed");
  });

  test("the daemon does not send an answer whose values do not match the introspection XML", async () => {
    const before = raw.repliesReceived;
    const ping = { ...call, member: "Ping", signature: "", body: [] };
    for (const sent of [{ body: ["broken", "key"] }, { signature: "u", body: [1] }, ping]) {
      raw.send({ ...call, ...sent, isReplyUnwanted: true });
    }
    // Calls are answered in order, so an answer to an earlier call would have arrived by now.
    expect(await raw.call(ping)).toEqual(["berth test"]);
    expect(raw.repliesReceived).toBe(before + 1);
  });
});

describe("properties of D-Bus objects", () => {
  const properties = { ...call, interface: PROPERTIES };

  test("are read one by one and all together", async () => {
    const { uniqueName } = harness.daemon;
    expect(await runGiClient(harness.bus, "properties", uniqueName, CONTEXT_PATH, CONTEXT)).toEqual(
      {
        Version: ["u", 1],
      },
    );
    expect(await harness.bus.busctlProperty(CONTEXT, CONTEXT_PATH, CONTEXT, "Version")).toBe(1);
    const any = await raw.call({ ...properties, member: "Get", body: ["", "Version"] });
    expect(any).toEqual([new Variant("u", 1)]);
    const peer = "org.freedesktop.DBus.Peer";
    expect(
      await raw.call({ ...properties, member: "GetAll", signature: "s", body: [peer] }),
    ).toEqual([{}]);
  });

  test.each([
    ["Get", "ss", [CONTEXT, "Versions"], "UnknownProperty"],
    ["Get", "ss", ["no.such.Interface", "Version"], "UnknownInterface"],
    ["Get", "s", [CONTEXT], "InvalidArgs"],
    ["GetAll", "s", ["no.such.Interface"], "UnknownInterface"],
    ["Set", "ssv", [CONTEXT, "Version", new Variant("u", 2)], "PropertyReadOnly"],
    ["Set", "ssv", [CONTEXT, "Version", new Variant("s", "2")], "PropertyReadOnly"],
    ["Set", "ssv", [CONTEXT, "Nothing", new Variant("u", 2)], "UnknownProperty"],
    ["Set", "ssv", ["no.such.Interface", "Version", new Variant("u", 2)], "UnknownInterface"],
  ])(
    "are protected: the call %s with the signature %s and the body %j is rejected",
    async (member, signature, body, name) => {
      const error = await raw.errorOf({ ...properties, member, signature, body });
      expect(error.name).toBe(standardError(name));
    },
  );

  test("cannot be written, even with standard clients", async () => {
    const set = [`${PROPERTIES}.Set`, CONTEXT, "Version", "<uint32 9>"] as const;
    await expect(harness.bus.gdbusCall(CONTEXT, CONTEXT_PATH, ...set)).rejects.toMatchObject({
      busName: standardError("PropertyReadOnly"),
    });
    const property = [CONTEXT, CONTEXT_PATH, CONTEXT, "Version", "u", "9"];
    const address = `--address=${harness.bus.address}`;
    const run = await harness.bus.run("busctl", [address, "set-property", ...property]);
    expect(run.code).not.toBe(0);
    expect(await harness.bus.busctlProperty(CONTEXT, CONTEXT_PATH, CONTEXT, "Version")).toBe(1);
  });
});

describe("standard D-Bus clients", () => {
  test("gdbus receives the names of errors", async () => {
    const { bus } = harness;
    const failing = (member: string, ...args: string[]) =>
      bus.gdbusCall(CONTEXT, CONTEXT_PATH, member, ...args);
    await expect(failing(`${CONTEXT}.MemoryGet`, "missing", "k")).rejects.toMatchObject({
      busName: "dev.assistant.Error.NotFound",
    });
    await expect(failing(`${CONTEXT}.Nope`)).rejects.toMatchObject({
      busName: standardError("UnknownMethod"),
    });
    await expect(bus.gdbusCall(CONTEXT, "/nowhere", `${CONTEXT}.Ping`)).rejects.toMatchObject({
      busName: standardError("UnknownObject"),
    });
  });

  test("busctl and GLib receive the names of errors", async () => {
    const { bus } = harness;
    await expect(
      bus.busctlCall(CONTEXT, CONTEXT_PATH, CONTEXT, "MemoryGet", "su", "missing", "1"),
    ).rejects.toThrow(/arguments of the types/);
    const name = harness.daemon.uniqueName;
    expect(
      await runGiClient(
        bus,
        "call",
        name,
        CONTEXT_PATH,
        CONTEXT,
        "MemoryGet",
        "ss",
        '["missing", "k"]',
      ),
    ).toMatchObject({ error: "dev.assistant.Error.NotFound" });
    expect(
      await runGiClient(
        bus,
        "call",
        name,
        CONTEXT_PATH,
        CONTEXT,
        "MemoryGet",
        "sx",
        '["missing", 1]',
      ),
    ).toMatchObject({ error: standardError("InvalidArgs") });
  });

  test("can call the Peer interface at every path", async () => {
    const peer = "org.freedesktop.DBus.Peer";
    expect(await harness.bus.gdbusCall(CONTEXT, "/anywhere/at/all", `${peer}.Ping`)).toBe("()");
    const [id] = await harness.bus.busctlCall(CONTEXT, CONTEXT_PATH, peer, "GetMachineId");
    expect(id).toMatch(/^[0-9a-f]{32}$/);
  });
});

test("the daemon does not wait for a name that another companion owns", async () => {
  await using second = await BusHarness.start({ address: harness.bus.address });
  const taken = second.daemon.requestName(CONTEXT);
  await expect(taken).rejects.toMatchObject({
    code: "busy",
    message: expect.stringMatching(/is already running/),
  });
  await expect(taken).rejects.toBeInstanceOf(AssistantError);
  const queued = await harness.bus.busctlCall(
    "org.freedesktop.DBus",
    "/org/freedesktop/DBus",
    "org.freedesktop.DBus",
    "ListQueuedOwners",
    "s",
    CONTEXT,
  );
  expect(queued).toEqual([[harness.daemon.uniqueName]]);
});
