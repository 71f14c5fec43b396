import { Variant } from "dbus-next";
import { expect, test, vi } from "vitest";
import { serveAgent } from "../../src/assistant/agent/bus.ts";
import type { CallDetail, CallRequest, ConfirmationSpec } from "../../src/assistant/agent/port.ts";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { serveContext } from "../../src/assistant/context/bus.ts";
import type { SearchRequest } from "../../src/assistant/context/port.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { ReceivedSignal } from "../../src/dbus/port.ts";
import { BusHarness, createFakeAgent, createFakeContextService } from "../support/bus-harness.ts";
import { runGiClient } from "../support/gi-client.ts";
import { RawBusClient } from "../support/raw-bus-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const AGENT = "dev.assistant.Agent1";
const AGENT_PATH = "/dev/assistant/Agent1";
const CONTEXT = "dev.assistant.Context1";
const CONTEXT_PATH = "/dev/assistant/Context1";
const INVALID_ARGS = "org.freedesktop.DBus.Error.InvalidArgs";

const detail: CallDetail = { v: 1, code: "ok", message: "done", app_id: "a.b", tool: "t" };
const spec: ConfirmationSpec = {
  v: 1,
  call_id: 7,
  app_id: "a.b",
  app_name: "A",
  tool: "t",
  title: "T",
  description: "",
  args: { text: 'it\'s "quoted" ü' },
  tiers: { declared: "write", effective: "write" },
  chain: [],
  diff: [],
  undo: null,
  caller: { app: null, verified: false, actor: null },
  expires_at: "2026-11-21T10:00:00.000Z",
  hold_ms: 0,
  digest: "",
};

async function startBusWith(agent: ReturnType<typeof createFakeAgent>): Promise<BusHarness> {
  const harness = await BusHarness.start();
  serveAgent({ bus: harness.daemon, service: agent, daemon: "berth 1.2.3" });
  await harness.daemon.requestName(AGENT);
  return harness;
}

test("a call is passed to the agent unchanged, and its answer is returned", async () => {
  const requests: { request: CallRequest; caller: Caller }[] = [];
  await using harness = await startBusWith(
    createFakeAgent({
      requestCall: async (request, caller) => {
        requests.push({ request, caller });
        return { callId: 2 ** 53 - 1, disposition: "executed", detail };
      },
      listTools: () => [
        { app_id: "a.b", name: "t", tier: "read", description: "d", undoable: false },
      ],
    }),
  );
  const { bus } = harness;
  const gdbus = await bus.gdbusCall(
    ...([AGENT, AGENT_PATH, `${AGENT}.RequestCall`, "a.b", "t", '{"x": 1}'] as const),
    "{'actor': <'me'>, 'provenance': <['user', 'file:notes']>}",
  );
  expect(gdbus).toBe(`(uint64 9007199254740991, 'executed', '${JSON.stringify(detail)}')`);
  const busctl = await bus.busctlCall(
    ...([AGENT, AGENT_PATH, AGENT, "RequestCall", "sssa{sv}", "a.b", "t", "{}", "0"] as const),
  );
  expect(busctl).toEqual([9007199254740991, "executed", JSON.stringify(detail)]);
  expect(requests.map(({ request }) => request)).toEqual([
    {
      appId: "a.b",
      tool: "t",
      argsJson: '{"x": 1}',
      actor: "me",
      provenance: ["user", "file:notes"],
    },
    { appId: "a.b", tool: "t", argsJson: "{}", actor: undefined, provenance: undefined },
  ]);
  expect(requests[0]?.caller).toMatchObject({
    connection: expect.stringMatching(/^:1\.\d+$/),
    pid: expect.any(Number),
  });
  expect(await runGiClient(bus, "call", AGENT, AGENT_PATH, AGENT, "Ping", "", "[]")).toEqual([
    "berth 1.2.3",
  ]);
  const [tools] = await bus.busctlCall(AGENT, AGENT_PATH, AGENT, "ListTools");
  expect(JSON.parse(String(tools))).toMatchObject([{ app_id: "a.b", tier: "read" }]);
  expect(await bus.busctlProperty(AGENT, AGENT_PATH, AGENT, "TrustedProvenance")).toEqual([
    "user",
    "system",
  ]);
});

test.each([
  ["an unknown option", { provenence: new Variant("as", []) }, /"provenence"/],
  ["an option of another type", { provenance: new Variant("s", "user") }, /provenance.*"s".*"as"/],
  ["the name of an inherited JavaScript member", { toString: 1 }, /"toString"/],
])("%s is refused by name", async (_, given: Record<string, unknown>, text) => {
  await using harness = await startBusWith(createFakeAgent({}));
  await using raw = await RawBusClient.connect(harness.bus);
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
    body: ["a.b", "t", "{}", options],
  });
  expect(error.name).toBe(INVALID_ARGS);
  expect(error.text).toMatch(text);
});

test("a number that is too large for a call id is reported as an unknown call", async () => {
  const asked: number[] = [];
  await using harness = await startBusWith(
    createFakeAgent({
      confirm: async (id) => {
        asked.push(id);
        return { status: "executed", detail };
      },
    }),
  );
  const confirm = (id: string) =>
    harness.bus.busctlCall(AGENT, AGENT_PATH, AGENT, "Confirm", "tb", id, "true");
  expect((await confirm("9007199254740991"))[0]).toBe("executed");
  const [status, text] = await confirm("9007199254740992");
  expect([status, JSON.parse(String(text)).code]).toEqual(["failed", "unknown_call"]);
  expect((await confirm("18446744073709551615"))[0]).toBe("failed");
  expect(asked).toEqual([9007199254740991]);
  await expect(
    harness.bus.gdbusCall(AGENT, AGENT_PATH, `${AGENT}.UndoSkip`, "18446744073709551615"),
  ).rejects.toMatchObject({ busName: "dev.assistant.Error.NotFound" });
});

test("ListParked returns the specs of the confirmation requests", async () => {
  const callers: Caller[] = [];
  const listParked = (caller: Caller) => {
    callers.push(caller);
    return [spec];
  };
  await using harness = await startBusWith(createFakeAgent({ listParked }));
  const [json] = await harness.bus.busctlCall(AGENT, AGENT_PATH, AGENT, "ListParked");
  expect(JSON.parse(String(json))).toEqual([spec]);
  expect(callers).toMatchObject([
    { connection: expect.stringMatching(/^:1\.\d+$/), pid: expect.any(Number) },
  ]);
});

test("every subscribed client receives the agent's signals", async () => {
  const agent = createFakeAgent({});
  await using harness = await startBusWith(agent);
  await using monitor = await harness.bus.monitor(AGENT);
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: false,
  });
  const heard: ReceivedSignal[] = [];
  const rule = { path: AGENT_PATH, interface: AGENT, sender: AGENT };
  const requested = { ...rule, member: "ConfirmationRequested" };
  const stop = await client.onSignal(requested, (signal) => heard.push(signal));
  await client.onSignal({ ...rule, member: "CallResolved" }, (signal) => heard.push(signal));
  agent.tell.confirmationRequested(7, spec);
  agent.tell.callResolved(7, "denied");
  const line = await monitor.line(/ConfirmationRequested/);
  expect(line).toContain("(uint64 7, ");
  await monitor.line(/CallResolved \(uint64 7, 'denied'\)/);
  await vi.waitFor(() => expect(heard.length).toBe(2), WAIT_OPTIONS);
  expect(heard[0]?.args).toEqual([7n, JSON.stringify(spec)]);
  expect(heard[1]).toEqual({ sender: harness.daemon.uniqueName, args: [7n, "denied"] });
  stop();
  agent.tell.confirmationRequested(8, spec);
  agent.tell.callResolved(8, "executed");
  await vi.waitFor(() => expect(heard.length).toBe(3), WAIT_OPTIONS);
  expect(heard[2]?.args).toEqual([8n, "executed"]);
});

test("a signal that another program sends to a client is not accepted as the agent's", async () => {
  const agent = createFakeAgent({});
  await using harness = await startBusWith(agent);
  await using client = await connectSessionBus({
    address: harness.bus.address,
    negotiateFds: false,
  });
  const heard: ReceivedSignal[] = [];
  const rule = { path: AGENT_PATH, interface: AGENT, sender: AGENT, member: "CallResolved" };
  await client.onSignal(rule, (signal) => heard.push(signal));
  // A signal that is sent to one connection reaches it without a match rule.
  const emit = ["emit", "--session", "--dest", client.uniqueName, "--object-path", AGENT_PATH];
  const forged = await harness.bus.run("gdbus", [
    ...emit,
    "--signal",
    `${AGENT}.CallResolved`,
    "uint64 1",
    "'executed'",
  ]);
  expect(forged.code).toBe(0);
  agent.tell.callResolved(2, "failed");
  await vi.waitFor(() => expect(heard.length).toBe(1), WAIT_OPTIONS);
  expect(heard[0]?.args).toEqual([2n, "failed"]);
});

test("a client that confirms calls is forgotten when its connection closes", async () => {
  const gone: string[] = [];
  const registered: string[] = [];
  await using harness = await startBusWith(
    createFakeAgent({
      registerConfirmer: ({ connection }) => void registered.push(connection),
      handleDisconnect: (connection) => void gone.push(connection),
    }),
  );
  const raw = await RawBusClient.connect(harness.bus);
  const call = { destination: AGENT, path: AGENT_PATH, interface: AGENT };
  await raw.call({ ...call, member: "RegisterConfirmer" });
  await raw.call({ ...call, member: "RegisterConfirmer" });
  expect([registered, gone]).toEqual([[raw.name, raw.name], []]);
  raw.disconnect();
  await vi.waitFor(() => expect(gone).toEqual([raw.name]), WAIT_OPTIONS);
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
