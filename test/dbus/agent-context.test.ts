import { Variant } from "dbus-next";
import { expect, onTestFinished, test, vi } from "vitest";
import { serveAgent } from "../../src/assistant/agent/bus.ts";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { serveContext } from "../../src/assistant/context/bus.ts";
import type { SearchRequest } from "../../src/assistant/context/port.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { ReceivedSignal } from "../../src/dbus/port.ts";
import { AgentHarness, NOTES, userCaller } from "../support/agent-harness.ts";
import { BusHarness, createFakeContextService } from "../support/bus-harness.ts";
import { runGiClient } from "../support/gi-client.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const AGENT = "dev.assistant.Agent1";
const AGENT_PATH = "/dev/assistant/Agent1";
const CONTEXT = "dev.assistant.Context1";
const CONTEXT_PATH = "/dev/assistant/Context1";
const INVALID_ARGS = "org.freedesktop.DBus.Error.InvalidArgs";

/** Serves a real agent on a bus of its own. */
async function startAgentBus() {
  const harness = await BusHarness.start();
  const notes = await AgentHarness.open();
  onTestFinished(async () => {
    await harness[Symbol.asyncDispose]();
    await notes.agent[Symbol.asyncDispose]();
  });
  serveAgent({ bus: harness.daemon, service: notes.agent, daemon: "berth 1.2.3" });
  await harness.daemon.requestName(AGENT);
  const { bus, daemon } = harness;
  const call = (member: string, signature = "", ...args: string[]) =>
    bus.busctlCall(AGENT, AGENT_PATH, AGENT, member, signature, ...args);
  return { bus, daemon, notes, call };
}

test("a call is passed to the agent unchanged, and its answer is returned", async () => {
  const { bus, notes, call } = await startAgentBus();
  const gdbus = await bus.gdbusCall(
    ...([AGENT, AGENT_PATH, `${AGENT}.RequestCall`, NOTES, "list", "{}"] as const),
    "{'actor': <'me'>, 'provenance': <['user', 'file:notes']>}",
  );
  expect(gdbus).toMatch(/^\(uint64 1, 'confirm-chip', '\{"v":1,.*"code":"confirm"/);
  const args = { title: 'it\'s "quoted" ü' };
  const [id, disposition, detail] = await call(
    ...(["RequestCall", "sssa{sv}", NOTES, "create", JSON.stringify(args), "0"] as const),
  );
  expect([id, disposition]).toEqual([2, "confirm-modal"]);
  expect(JSON.parse(String(detail))).toMatchObject({ v: 1, app_id: NOTES, tool: "create" });
  const chain = ["user", "file:notes"];
  expect(notes.confirmationRequests).toMatchObject([
    { callId: 1, spec: { args: {}, chain, caller: { app: null, actor: "me" } } },
    { callId: 2, spec: { args, chain: [], caller: { actor: null } } },
  ]);
  const [parked] = await call("ListParked");
  expect(JSON.parse(String(parked))).toEqual(notes.confirmationRequests.map(({ spec }) => spec));
  expect(await runGiClient(bus, "call", AGENT, AGENT_PATH, AGENT, "Ping", "", "[]")).toEqual([
    "berth 1.2.3",
  ]);
  const [tools] = await call("ListTools");
  expect(JSON.parse(String(tools))).toEqual(notes.agent.listTools());
  expect(await bus.busctlProperty(AGENT, AGENT_PATH, AGENT, "TrustedProvenance")).toEqual([
    "user",
    "system",
  ]);
});

test.each([
  ["an unknown option", { provenence: new Variant("as", []) }, /"provenence"/],
  ["an option of another type", { provenance: new Variant("s", "user") }, /provenance.*"s".*"as"/],
  ["the name of an inherited JavaScript member", { toString: 1 }, /"toString"/],
])(
  "a call with %s is refused, and the error names the wrong option",
  async (_, given: Record<string, unknown>, text) => {
    const { bus } = await startAgentBus();
    await using raw = await RawBusClient.connect(bus);
    const options = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [
        name,
        value instanceof Variant ? value : new Variant("u", 1),
      ]),
    );
    const error = await raw.errorOf({
      destination: AGENT,
      path: AGENT_PATH,
      interface: AGENT,
      member: "RequestCall",
      signature: "sssa{sv}",
      body: [NOTES, "list", "{}", options],
    });
    expect(error.name).toBe(INVALID_ARGS);
    expect(error.text).toMatch(text);
  },
);

test("a number that is too large for a call id is reported as an unknown call", async () => {
  const { bus, call } = await startAgentBus();
  for (const id of ["9007199254740991", "9007199254740992", "18446744073709551615"]) {
    const [status, text] = await call("Confirm", "tb", id, "true");
    expect([status, JSON.parse(String(text)).code]).toEqual(["failed", "unknown_call"]);
    for (const member of ["UndoSkip", "UndoCall"])
      await expect(
        bus.gdbusCall(AGENT, AGENT_PATH, `${AGENT}.${member}`, id),
      ).rejects.toMatchObject({ busName: "dev.assistant.Error.NotFound" });
  }
});

test("every subscribed client receives the agent's signals", async () => {
  const { bus, daemon, notes } = await startAgentBus();
  await using monitor = await bus.monitor(AGENT);
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const heard: ReceivedSignal[] = [];
  const rule = { path: AGENT_PATH, interface: AGENT, sender: AGENT };
  const requested = { ...rule, member: "ConfirmationRequested" };
  const stop = await client.onSignal(requested, (signal) => heard.push(signal));
  await client.onSignal({ ...rule, member: "CallResolved" }, (signal) => heard.push(signal));
  await notes.agent.confirm(await notes.park(), false, userCaller());
  const line = await monitor.line(/ConfirmationRequested/);
  expect(line).toContain("(uint64 1, ");
  await monitor.line(/CallResolved \(uint64 1, 'denied'\)/);
  await vi.waitFor(() => expect(heard.length).toBe(2), WAIT_OPTIONS);
  expect(heard[0]?.args).toEqual([1n, JSON.stringify(notes.confirmationRequests[0]?.spec)]);
  expect(heard[1]).toEqual({ sender: daemon.uniqueName, args: [1n, "denied"] });
  stop();
  await notes.agent.confirm(await notes.park(), true, userCaller());
  await vi.waitFor(() => expect(heard.length).toBe(3), WAIT_OPTIONS);
  expect(heard[2]?.args).toEqual([2n, "executed"]);
});

test("a signal that another program sends to a client is not accepted as the agent's", async () => {
  const { bus, notes } = await startAgentBus();
  await using client = await connectSessionBus({ address: bus.address, negotiateFds: false });
  const heard: ReceivedSignal[] = [];
  const rule = { path: AGENT_PATH, interface: AGENT, sender: AGENT, member: "CallResolved" };
  await client.onSignal(rule, (signal) => heard.push(signal));
  // The bus delivers a signal with a destination to that connection even if it has no match rule for the signal.
  const emit = ["emit", "--session", "--dest", client.uniqueName, "--object-path", AGENT_PATH];
  const forged = await bus.run("gdbus", [
    ...emit,
    "--signal",
    `${AGENT}.CallResolved`,
    "uint64 1",
    "'executed'",
  ]);
  expect(forged.code).toBe(0);
  await notes.agent.confirm(await notes.park(), false, userCaller());
  await vi.waitFor(() => expect(heard.length).toBe(1), WAIT_OPTIONS);
  expect(heard[0]?.args).toEqual([1n, "denied"]);
});

test("a client that confirms calls is forgotten when its connection closes", async () => {
  const { bus, notes } = await startAgentBus();
  const raw = await RawBusClient.connect(bus);
  const call = { destination: AGENT, path: AGENT_PATH, interface: AGENT };
  await raw.call({ ...call, member: "RegisterConfirmer" });
  await raw.call({ ...call, member: "RegisterConfirmer" });
  const registerOther = () => notes.agent.registerConfirmer(userCaller(":9.9"));
  await expect(registerOther()).rejects.toThrow("has already registered");
  raw.disconnect();
  await vi.waitFor(registerOther, WAIT_OPTIONS);
});

test("calls of Context1 reach the context service, and its errors reach the caller", async () => {
  const searches: SearchRequest[] = [];
  await using harness = await BusHarness.start();
  const service = createFakeContextService({
    search: async (request) => {
      searches.push(request);
      if (request.limit === 0) throw new AssistantError("invalid_request", "the limit is 1 to 50");
      return [];
    },
  });
  serveContext({ bus: harness.daemon, service, daemon: "berth 1.2.3" });
  await harness.daemon.requestName(CONTEXT);
  const { bus } = harness;
  const search = (options: string) =>
    bus.gdbusCall(CONTEXT, CONTEXT_PATH, `${CONTEXT}.Search`, "words", options);
  expect(await search("{}")).toBe("('[]',)");
  await search("{'limit': <uint32 50>, 'hybrid': <true>, 'scopes': <@as []>}");
  await expect(search("{'limit': <uint32 0>}")).rejects.toMatchObject({ busName: INVALID_ARGS });
  await expect(search("{'limit': <5>}")).rejects.toMatchObject({ busName: INVALID_ARGS });
  expect(searches).toEqual([
    { query: "words", limit: 3, isHybrid: false, scopes: undefined },
    { query: "words", limit: 50, isHybrid: true, scopes: [] },
    { query: "words", limit: 0, isHybrid: false, scopes: undefined },
  ]);
  const memory = (member: string, ...args: string[]) =>
    bus.busctlCall(CONTEXT, CONTEXT_PATH, CONTEXT, member, "s".repeat(args.length), ...args);
  await memory("MemorySet", "app", "__proto__", "für dich\n");
  expect(await memory("MemoryGet", "app", "__proto__")).toEqual(["für dich\n"]);
  const [list] = await memory("MemoryList", "app");
  expect(list).toBe('{"__proto__":"für dich\\n"}');
  expect(await memory("MemoryWipe", "app")).toEqual([]);
  expect(await memory("MemoryList", "app")).toEqual(["{}"]);
  expect(
    JSON.parse(String((await bus.busctlCall(CONTEXT, CONTEXT_PATH, CONTEXT, "IndexState"))[0])),
  ).toMatchObject({ v: 1 });
});
