import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { CountingClock } from "../../support/counting-clock.ts";
import { DbusNextFrontend, OVERLAY, toVariants } from "../../support/dbus-next-frontend.ts";
import { openDescriptors } from "../../support/inference-bus-harness.ts";
import { OverlayBusHarness } from "../../support/overlay-bus-harness.ts";
import {
  confirmationSpec,
  emptyPassOutcome,
  type OverlayHarness,
  REMOTE_MODEL,
  searchHit,
  streamForever,
} from "../../support/overlay-harness.ts";
import { accepted, forever, says } from "../../support/scripted-service.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const PATH = "/dev/assistant/Overlay1";
/** The number of rounds. 20,000 rounds take a minute. */
const ROUNDS = Number(process.env["BERTH_OVERLAY_ROUNDS"] ?? 500);

const until = (is: () => boolean) => vi.waitUntil(is, { ...WAIT_OPTIONS, interval: 2 });

let harness: OverlayBusHarness;
let parts: OverlayHarness;
let client: DbusNextFrontend;
const clock = new CountingClock();

beforeAll(async () => {
  harness = await OverlayBusHarness.start(
    { limits: { calls: { burst: 1e9, perSecond: 1e9 }, runningMax: 1_000, heldBytesMax: 2 ** 25 } },
    { clock },
  );
  parts = harness.parts;
  client = await DbusNextFrontend.connect(harness.bus);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await harness[Symbol.asyncDispose]();
});
beforeEach(() => {
  parts.inference.script = (request) => says(request, ["Hello", " ", "there 🌱"]);
  parts.hits = async () => [];
  parts.pass = async () => emptyPassOutcome;
  client.received.length = 0;
});

describe("a query on a real bus", () => {
  it("gets its id first, and then its signals", async () => {
    parts.hits = async () => [searchHit()];
    const id = await client.ask("When?", { my_stuff: true, window: true, model_hint: "" });
    await client.waitFor(id, "Finished");
    expect(
      client.receivedOfQuery(id).map(([kind, , ...rest]) => (kind === "Token" ? rest[0] : kind)),
    ).toEqual(["answered", "Started", "Hello", " ", "there 🌱", "Finished"]);
    expect(client.json(id, "Started")).toMatchObject({
      v: 1,
      lane: "agent",
      model: null,
      route: "local",
      options: ["my_stuff"],
      unavailable: ["window"],
      sources: [{ source: "notes", title: "Boiler" }],
    });
    expect(client.receivedOfQuery(id).at(-1)?.[2]).toBe("completed");
    expect(client.json(id, "Finished")).toMatchObject({ v: 1, code: "ok", finish_reason: "stop" });
  });

  it(`gets no signal before the answer to its Ask, ${ROUNDS} times`, async () => {
    const other = await DbusNextFrontend.connect(harness.bus);
    for (let round = 0; round < ROUNDS; round += 10) {
      const ids = await Promise.all(
        Array.from({ length: 10 }, (_, at) => (at % 2 === 0 ? client : other).ask("x")),
      );
      for (const [at, id] of ids.entries()) {
        const asker = at % 2 === 0 ? client : other;
        await asker.waitFor(id, "Finished");
        expect(asker.eventSequence(id)).toBe("answered Started Token Token Token Finished");
      }
      client.received.length = 0;
      other.received.length = 0;
    }
    other.disconnect();
  });

  it("sends its signals to no other connection", async () => {
    await using other = await DbusNextFrontend.connect(harness.bus);
    const id = await client.ask("x", { model_hint: REMOTE_MODEL });
    await client.waitFor(id, "ConfirmationNeeded");
    await client.call("Respond", "tb", id, false);
    await client.waitFor(id, "Finished");
    expect(client.receivedOfQuery(id).at(-1)?.[2]).toBe("denied");
    expect(await other.call("Ping")).toEqual(["berth 0.0.0-test"]);
    expect(other.received).toEqual([]);
  });

  it("with the lane `chat` sends its history to the model", async () => {
    const turns = [
      { role: "system", content: "Be short." },
      { role: "user", content: "Hi" },
      { role: "assistant", content: "" },
    ];
    const id = await client.ask("And?", { lane: "chat", history_json: JSON.stringify(turns) });
    await client.waitFor(id, "Finished");
    expect(parts.lastMessages).toEqual([...turns, { role: "user", content: "And?" }]);
  });

  it("can be cancelled only by the connection that asked", async () => {
    parts.inference.script = streamForever;
    await using other = await DbusNextFrontend.connect(harness.bus);
    const id = await client.ask("x");
    await client.waitFor(id, "Token");
    const refusal = await other.getRefusal("Cancel", "t", id);
    expect(refusal).toEqual({
      name: "dev.assistant.Error.NotFound",
      text: `this connection has no query ${id}`,
    });
    await client.call("Cancel", "t", id);
    await client.call("Cancel", "t", id);
    await client.waitFor(id, "Finished");
    expect(client.receivedOfQuery(id).at(-1)?.[2]).toBe("cancelled");
    expect(client.eventSequence(id)).toBe("answered Started Token Finished");
  });

  it("does not accept an answer to one question for another", async () => {
    const id = await client.ask("x", { model_hint: REMOTE_MODEL });
    await client.waitFor(id, "ConfirmationNeeded");
    expect(client.json(id, "ConfirmationNeeded")).toMatchObject({ question: 1, calls: [] });
    for (const wrong of [0, 2, 2 ** 32 - 1])
      expect(await client.getRefusal("RespondTo", "tub", id, wrong, true)).toEqual({
        name: "org.freedesktop.DBus.Error.InvalidArgs",
        text: `question ${wrong} of query ${id} does not wait for an answer`,
      });
    await client.call("RespondTo", "tub", id, 1, true);
    await client.waitFor(id, "Finished");
    expect(client.receivedOfQuery(id).at(-1)?.[2]).toBe("completed");
    expect((await client.getRefusal("RespondTo", "tub", id, 1, true)).name).toContain(
      "InvalidArgs",
    );
  });

  it("accepts another connection's approval, and the first answer counts", async () => {
    await using other = await DbusNextFrontend.connect(harness.bus);
    const id = await client.ask("x", { model_hint: REMOTE_MODEL });
    await client.waitFor(id, "ConfirmationNeeded");
    expect(client.json(id, "ConfirmationNeeded")).toMatchObject({
      kind: "consent",
      provider: "cloud",
      scopes: ["prompt"],
    });
    await other.call("Respond", "tb", id, true);
    expect(await client.getRefusal("Respond", "tb", id, false)).toEqual({
      name: "org.freedesktop.DBus.Error.InvalidArgs",
      text: `query ${id} does not wait for an answer`,
    });
    await client.waitFor(id, "Finished");
    expect(client.receivedOfQuery(id).at(-1)?.[2]).toBe("completed");
  });

  it("ends when its connection closes", async () => {
    parts.inference.script = streamForever;
    const other = await DbusNextFrontend.connect(harness.bus);
    const id = await other.ask("x");
    await other.waitFor(id, "Token");
    await other.ask("y", { model_hint: REMOTE_MODEL });
    other.send("Ask", "sa{sv}", "z", {});
    other.disconnect();
    await until(() => parts.inference.running === 0 && clock.pending === 0);
    await vi.waitFor(
      async () => expect(await parts.overlay.status()).toMatchObject({ state: "idle" }),
      WAIT_OPTIONS,
    );
  });
});

function chat(history: unknown) {
  return { lane: "chat", history_json: JSON.stringify(history) };
}

describe("invalid input to the overlay", () => {
  const INVALID = "org.freedesktop.DBus.Error.InvalidArgs";
  const LIMITS = "org.freedesktop.DBus.Error.LimitsExceeded";
  const turn = { role: "user", content: "x" };
  it.each([
    ["", {}, INVALID, "prompt is empty"],
    ["x".repeat(1_048_577), {}, LIMITS, "prompt has 1048577 bytes"],
    ["x", { my_stuf: true }, INVALID, 'there is no option "my_stuf"'],
    ["x", { my_stuff: "yes" }, INVALID, '"my_stuff" has the type "s"'],
    ["x", { window: 1 }, INVALID, '"window" has the type "u"'],
    ["x", { lane: "fast" }, INVALID, "lane must be agent or chat"],
    ["x", { model_hint: true }, INVALID, '"model_hint" has the type "b"'],
    ["x", { model_hint: "remote:x" }, INVALID, "model_hint begins with remote:"],
    ["x", { history_json: "[]" }, INVALID, "history_json belongs to the chat lane"],
    ["x", { lane: "chat", history_json: "" }, INVALID, "history_json must be an array"],
    ["x", { lane: "chat", history_json: "[" }, INVALID, "history_json is not JSON"],
    [
      "x",
      { lane: "chat", history_json: '[{"role":"user","role":"user"}]' },
      INVALID,
      "occurs twice",
    ],
    ["x", { lane: "chat", history_json: '[{"__proto__":1}]' }, INVALID, "not allowed"],
    ["x", chat({}), INVALID, "history_json must be an array"],
    ["x", chat([[[]]]), INVALID, "nested deeper"],
    ["x", chat(["x"]), INVALID, "history_json[0] must be an object"],
    ["x", chat([turn, { ...turn, role: "tool" }]), INVALID, "history_json[1].role must be"],
    ["x", chat([{ role: "user" }]), INVALID, "history_json[0].content must be a string"],
    ["x", chat([{ ...turn, name: "me" }]), INVALID, "must have only role and content"],
    ["x", chat(Array.from({ length: 257 }, () => turn)), INVALID, "history_json has 257 turns"],
    [
      "x",
      chat([{ ...turn, content: "x".repeat(1_048_576) }]),
      INVALID,
      "at most 1048576 are allowed",
    ],
  ])(
    "the method Ask rejects case %#: the prompt %.20s with the options %j",
    async (prompt, options, name, text) => {
      const refusal = await client.getRefusal("Ask", "sa{sv}", prompt, toVariants(options));
      expect(refusal.name).toBe(name);
      expect(refusal.text).toContain(text);
    },
  );

  it.each([
    ["Ask", "s", ["x"]],
    ["Cancel", "u", [1]],
    ["Respond", "t", [1n]],
    ["Summon", "", []],
  ])('the method %s rejects arguments of the types "%s"', async (member, signature, body) => {
    expect((await client.getRefusal(member, signature, ...body)).name).toBe(INVALID);
  });

  it.each([0n, 1_000_000n, 2n ** 64n - 1n])(
    "the query id %s, which does not exist, is rejected in an answer and in a cancellation",
    async (id) => {
      const name = "dev.assistant.Error.NotFound";
      expect((await client.getRefusal("Cancel", "t", id)).name).toBe(name);
      expect((await client.getRefusal("Respond", "tb", id, true)).name).toBe(name);
      expect((await client.getRefusal("RespondTo", "tub", id, 1, true)).name).toBe(name);
    },
  );

  it("queries with invalid input leave no state behind", async () => {
    expect(await parts.overlay.status()).toMatchObject({ state: "idle", active: 0 });
  });
});

it("the overlay accepts 20 queries of one connection, refuses the next, and accepts one of another connection", async () => {
  parts.inference.script = streamForever;
  const greedy = await DbusNextFrontend.connect(harness.bus);
  for (let at = 0; at < 20; at += 1) await greedy.ask("x");
  const refusal = await greedy.getRefusal("Ask", "sa{sv}", "x", {});
  expect(refusal.name).toBe("org.freedesktop.DBus.Error.LimitsExceeded");
  const id = await client.ask("x");
  greedy.disconnect();
  await client.waitFor(id, "Token");
  await client.call("Cancel", "t", id);
});

it("the result of GetStatus has the documented types", async () => {
  const text = await harness.bus.gdbusCall(OVERLAY, PATH, `${OVERLAY}.GetStatus`);
  const types = (await client.call("GetStatus"))[0];
  expect(
    Object.fromEntries(
      Object.entries(types ?? {}).map(([name, value]) => [name, Reflect.get(value, "signature")]),
    ),
  ).toEqual({
    version: "s",
    state: "s",
    active: "u",
    pending_confirmations: "u",
    engine: "s",
    model: "s",
    model_error: "s",
    http_port: "u",
    ledger_ok: "b",
    ledger_size: "t",
    index_docs: "u",
    index_state: "s",
    window_available: "b",
    selection_available: "b",
    consent: "as",
    providers: "as",
    uptime_ms: "t",
  });
  expect(text).toContain("'state': <'idle'>");
  expect(text).toContain("'model': <'tiny'>");
  expect(text).toContain("'http_port': <uint32 7778>");
  expect(text).toContain("'providers': <['cloud']>");
  expect(await harness.bus.busctlProperty(OVERLAY, PATH, OVERLAY, "Version")).toBe(1);
});

describe("the frontend", () => {
  it("is reported as missing by Summon and Hide if none is connected", async () => {
    for (const [member, signature, body] of [
      ["Summon", "s", ["x"]],
      ["Hide", "", []],
    ] as const) {
      expect(await client.getRefusal(member, signature, ...body)).toEqual({
        name: "dev.assistant.Error.NotFound",
        text: expect.stringContaining("there is no frontend"),
      });
    }
  });

  it("is summoned and hidden, and receives the questions of waiting queries", async () => {
    await using frontend = await DbusNextFrontend.connect(harness.bus);
    await frontend.takeUi();
    await client.call("Summon", "s", "hello");
    await client.call("Hide");
    expect(frontend.received).toEqual([["ui.Summon", "hello", {}], ["ui.Hide"]]);
    frontend.received.length = 0;
    const id = await client.ask("x", { model_hint: REMOTE_MODEL });
    await until(() => frontend.window.isVisible);
    expect(frontend.receivedOfQuery(id).map(([kind]) => kind)).toEqual(["ConfirmationNeeded"]);
    expect(frontend.json(id, "ConfirmationNeeded")).toEqual(client.json(id, "ConfirmationNeeded"));
    const [, prompt, options] = frontend.received.find(([kind]) => kind === "ui.Summon") ?? [];
    expect(prompt).toBe("");
    expect(options).toMatchObject({ query_id: { signature: "t", value: id } });
    await frontend.call("Respond", "tb", id, true);
    await client.waitFor(id, "Finished");
    await until(() => !frontend.window.isVisible);
    expect(frontend.receivedOfQuery(id)).toHaveLength(1);
  });

  it("is replaced by a second one after the first has exited", async () => {
    const first = await DbusNextFrontend.connect(harness.bus);
    await using second = await DbusNextFrontend.connect(harness.bus);
    await first.takeUi();
    await client.call("Summon", "s", "1");
    first.disconnect();
    await second.takeUi();
    await client.call("Summon", "s", "2");
    expect(second.received).toEqual([["ui.Summon", "2", {}]]);
  });

  it("receives a question of its own query only once", async () => {
    await using frontend = await DbusNextFrontend.connect(harness.bus);
    await frontend.takeUi();
    frontend.window.isVisible = true;
    const id = await frontend.ask("x", { model_hint: REMOTE_MODEL });
    await frontend.waitFor(id, "ConfirmationNeeded");
    await frontend.call("Respond", "tb", id, true);
    await frontend.waitFor(id, "Finished");
    expect(
      frontend.receivedOfQuery(id).filter(([kind]) => kind === "ConfirmationNeeded"),
    ).toHaveLength(1);
  });

  it("does not delay a query, even if it does not answer or fails", async () => {
    await using frontend = await DbusNextFrontend.connect(harness.bus);
    await frontend.takeUi();
    frontend.window.isMute = true;
    // The frontend does not answer Summon, so the client's Summon fails after two seconds. The query must end sooner.
    let isRefused = false;
    const refusal = client.getRefusal("Summon", "s", "x").finally(() => {
      isRefused = true;
    });
    const id = await client.ask("x", { model_hint: REMOTE_MODEL });
    await client.waitFor(id, "ConfirmationNeeded");
    await client.call("Respond", "tb", id, true);
    await client.waitFor(id, "Finished");
    expect(isRefused).toBe(false);
    expect(await refusal).toEqual({
      name: "dev.assistant.Error.Failed",
      text: "the frontend did not answer Summon within 2 seconds",
    });
    Object.assign(frontend.window, { isMute: false, isBroken: true });
    expect(await client.getRefusal("Hide")).toEqual({
      name: "dev.assistant.Error.BadResponse",
      text: "the frontend refused Hide",
    });
  });
});

it("200 queries that are cancelled, cut off, slow, denied or abandoned leave no state", async () => {
  await parts.overlay.status();
  const before = openDescriptors();
  let turn = 0;
  parts.inference.script = async function* (_, signal) {
    turn += 1;
    yield accepted;
    yield { type: "text", choice: 0, text: "so" };
    if (turn % 2 === 0) await forever(signal);
    throw new Error("cut");
  };
  parts.pass = async ({ ask }, signal) => {
    await ask(confirmationSpec(), signal);
    return emptyPassOutcome;
  };
  for (let round = 0; round < 10; round += 1) {
    const gone = await DbusNextFrontend.connect(harness.bus);
    const ids: bigint[] = [];
    for (let at = 0; at < 10; at += 1) {
      ids.push(await client.ask("x", at % 3 === 0 ? {} : { lane: "chat" }));
      await gone.ask("x", at % 3 === 0 ? { model_hint: REMOTE_MODEL } : { lane: "chat" });
    }
    for (const id of ids) await client.call("Cancel", "t", id);
    gone.disconnect();
    for (const id of ids) await client.waitFor(id, "Finished");
    client.received.length = 0;
  }
  await until(() => parts.inference.running === 0 && clock.pending === 0);
  expect(await parts.overlay.status()).toMatchObject({
    state: "idle",
    active: 0,
    pending_confirmations: 0,
  });
  await until(() => openDescriptors() <= before);
});
