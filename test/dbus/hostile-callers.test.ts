import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  assertText,
  CompanionClient,
  getCallOutcome,
  type ObservedCallDetail,
} from "../support/companion-client.ts";
import { EFFECTS, EffectsApp } from "../support/effects-app.ts";
import { verifyLedgerAt } from "../support/ledger-fixtures.ts";
import { findFaultyResponse } from "../support/provider/faulty-responses.ts";
import type { ScriptedResponse } from "../support/provider/scripted-response.ts";
import type { ProviderRequest } from "../support/provider/test-provider.ts";
import { RawApp } from "../support/raw-app.ts";
import {
  LOCAL_MODEL,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../support/remote-companion-harness.ts";
import { type CallResult, countOutcomes, SandboxedApp } from "../support/sandboxed-app.ts";

/**
 * Sandboxed apps that attack the real companion on a session bus, while the user's own programs use it. The tests share
 * one companion, and the last one stops it.
 */

const HANGING = "org.example.Hanging";
const isRoot = process.getuid?.() === 0;
const untrusted = { provenance: ["as", ["web:example.org"]] };

let harness: RemoteCompanionHarness;
let user: CompanionClient;
let effects: EffectsApp;
let hanging: RawApp;
let first: SandboxedApp;
let second: SandboxedApp;

/** An event of the stream of a completion. */
const chunk = (choice: object) =>
  `data: ${JSON.stringify({ model: "tiny", choices: [{ index: 0, ...choice }] })}\n\n`;

/** The system instance: a completion of a prompt with `#hang` never ends. */
function answer(request: ProviderRequest): ScriptedResponse | undefined {
  if (request.path !== "/v1/completions") return findFaultyResponse(request);
  const isHanging = JSON.stringify(request.body).includes("#hang");
  const body = `${chunk({ text: "Hello" })}${isHanging ? "" : `${chunk({ text: "", finish_reason: "stop" })}data: [DONE]\n\n`}`;
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
  return { type: "raw", bytes: head + body, afterwards: isHanging ? "hang" : "end" };
}

beforeAll(async () => {
  if (!isRoot) return;
  harness = await RemoteCompanionHarness.open({ script: answer, isStarted: false });
  const { companion, bus, dataDir } = harness;
  effects = await EffectsApp.start(companion, dataDir);
  await EffectsApp.writeManifest(companion, HANGING);
  await companion.start();
  await harness.configureProvider();
  hanging = await RawApp.start(companion.ready.apps_dir, HANGING, (message, peer) => {
    if (message.method === "tools/list") {
      peer.answer(message, { tools: EffectsApp.listedTools });
      return "handled";
    }
    if (message.method !== "tools/call") return undefined;
    // Only the tool `star` answers, so that it can be undone; its undo hangs.
    if (message.params?.["name"] === "star" && JSON.stringify(message.params).includes("undoable"))
      peer.answer(message, { content: [], structuredContent: { id: "made-undoable" } });
    return "handled";
  });
  user = await CompanionClient.connect(bus);
  first = await SandboxedApp.start(bus, "org.example.First");
  second = await SandboxedApp.start(bus, "org.example.Second");
});
afterAll(async () => {
  for (const one of [first, second, user, hanging, effects, harness])
    await one?.[Symbol.asyncDispose]();
});

/** Requests a call of a tool as the sandboxed app. */
const request = (
  app: SandboxedApp,
  connection: number,
  tool: string,
  argsJson: string,
  appId = EFFECTS,
) =>
  app.call(
    connection,
    "Agent1",
    "RequestCall",
    ["s", "s", "s", "a{sv}"],
    [appId, tool, argsJson, untrusted],
  );

const readDetail = ({ value }: CallResult): ObservedCallDetail => JSON.parse(String(value?.[2]));
/** Returns how many calls of a tool the hanging app has received. */
const countReceived = (tool: string) =>
  hanging.received.filter(
    ({ method, params }) => method === "tools/call" && params?.["name"] === tool,
  ).length;
const readRssMib = () => {
  const status = readFileSync(`/proc/${harness.companion.ready.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1_024;
};
/** Uses each service of the companion as a program of the user does. */
async function useAsUser(mark: string): Promise<void> {
  const called = await user.request(EFFECTS, "look", { mark });
  expect(called?.status).toBe("executed");
  const asked = await harness.frontend.waitForEnd(
    await harness.frontend.ask("Hello", { lane: "chat", model_hint: LOCAL_MODEL }),
  );
  expect(asked.end?.status).toBe("completed");
  await user.context("Search", "sa{sv}", ["boiler", new Map<string, never>()]);
  const [path] = await user.call("Inference1", "OpenSession", "a{sv}", [new Map<string, never>()]);
  const session = { path: assertText(path), interface: "dev.assistant.Inference1.Session" };
  const noOptions = new Map<string, never>();
  await user.call("Inference1", "Generate", "sa{sv}", ["Hello", noOptions], session);
  await user.call("Inference1", "Close", "", [], session);
}

describe.runIf(isRoot)("a sandboxed app", () => {
  it("cannot block the companion with arguments that are large, deep or ambiguous", async () => {
    const [connection = 0] = await first.connectMany(1);
    const documents = [
      "[".repeat(3_800_000),
      `${"[".repeat(1_900_000)}${"]".repeat(1_900_000)}`,
      `{"mark":${"[".repeat(500_000)}`,
      `{${Array.from({ length: 300_000 }, (_, key) => `"k${key}":1`).join()}}`,
      `{"mark":"a","mark":"b"}`,
      `{"mark":"\\ud800"}`,
      `{"__proto__":{"mark":"a"},"mark":"a"}`,
      `{"mark":"${"a".repeat(3_800_000)}"}`,
      `{"mark":1e999}`,
      `{"mark":"a"} {"mark":"b"}`,
    ];
    const attack = Promise.all(
      documents.map((document) => request(first, connection, "make", document)),
    );
    await useAsUser("during");
    for (const result of await attack) {
      const status = result.error === undefined ? result.value[1] : "refused";
      expect(["failed", "denied", "refused"]).toContain(status);
    }
    expect(effects.effects().map(({ mark }) => mark)).toEqual(["during"]);
  });

  it("cannot fill the companion's memory with large calls that hang, whatever the number of its connections", async () => {
    const connections = await first.connectMany(12);
    const before = readRssMib();
    // Blanks are part of the arguments' text, but not of the arguments.
    const large = `{"mark":"large"${" ".repeat(900_000)}}`;
    const ended: CallResult[] = [];
    for (const connection of connections)
      void request(first, connection, "star", large, HANGING).then((result) => ended.push(result));
    await expect.poll(() => ended.length).toBeGreaterThan(9);
    await useAsUser("memory");
    for (const result of ended)
      expect(result.error ?? readDetail(result).code).toMatch(/rate_limited|LimitsExceeded$/);
    expect(readRssMib() - before).toBeLessThan(256);
    for (const connection of connections) await first.disconnect(connection);
  });

  it("cannot take all queries, sessions and messages, neither alone nor together with another app", async () => {
    for (const app of [first, second]) {
      const connections = await app.connectMany(12);
      const all = (make: (connection: number) => Promise<CallResult>, rounds: number) =>
        Promise.all(Array.from({ length: rounds }, () => connections.map(make)).flat());
      const asked = await all(
        (connection) =>
          app.call(
            connection,
            "Overlay1",
            "Ask",
            ["s", "a{sv}"],
            ["#hang", { lane: ["s", "chat"], model_hint: ["s", LOCAL_MODEL] }],
          ),
        4,
      );
      expect(countOutcomes(asked)).toEqual({ answered: 8, LimitsExceeded: 40 });
      const opened = await all(
        (connection) => app.call(connection, "Inference1", "OpenSession", ["a{sv}"], [{}]),
        6,
      );
      expect(countOutcomes(opened)).toEqual({ answered: 64, LimitsExceeded: 8 });
      const generated = await Promise.all(
        opened.flatMap(({ value }, at) =>
          value
            ? [
                app.call(
                  connections[at % connections.length] ?? 0,
                  "Inference1",
                  "Generate",
                  ["s", "a{sv}"],
                  ["#hang", {}],
                  String(value[0]),
                ),
              ]
            : [],
        ),
      );
      expect(countOutcomes(generated)).toEqual({ answered: 8, LimitsExceeded: 56 });
      await useAsUser("places");
    }
  });

  it("leaves nothing behind if it connects, asks and disconnects many times", async () => {
    for (let round = 0; round < 50; round += 1) {
      const connection = await first.connect();
      void first.call(
        connection,
        "Overlay1",
        "Ask",
        ["s", "a{sv}"],
        ["#hang", { lane: ["s", "chat"], model_hint: ["s", LOCAL_MODEL] }],
      );
      void first.call(connection, "Inference1", "OpenSession", ["a{sv}"], [{}]);
      await first.disconnect(connection);
    }
    // The connections of the tests before are closed too.
    await first[Symbol.asyncDispose]();
    await second[Symbol.asyncDispose]();
    await expect.poll(() => harness.countQueries()).toEqual({ active: 0, pending: 0 });
    first = await SandboxedApp.start(harness.bus, "org.example.First");
    second = await SandboxedApp.start(harness.bus, "org.example.Second");
    await useAsUser("afterwards");
  });

  it("can neither confirm, decide nor undo anything, nor change providers, consent or memory of others", async () => {
    const [connection = 0, other = 0] = await first.connectMany(2);
    const parked = await request(first, connection, "make", '{"mark":"own"}');
    const id = Number(parked.value?.[0]);
    expect(parked.value?.[1]).toBe("confirm-modal");
    const mine = await user.request(EFFECTS, "star", { mark: "mine" });
    await harness.frontend.call("Remote1", "SetConsent", "sb", "prompt", false);
    const asked = await harness.frontend.ask("Hello", { lane: "chat", model_hint: REMOTE_MODEL });
    await harness.frontend.waitForQuestion(asked);
    const question = Number(asked.queryId);
    const theirs = await first.call(
      connection,
      "Overlay1",
      "Ask",
      ["s", "a{sv}"],
      ["Hello", { lane: ["s", "chat"], model_hint: ["s", REMOTE_MODEL] }],
    );
    const state = await harness.frontend.getRemoteState();
    const attempts = await Promise.all(
      [connection, other].flatMap((from) => [
        first.call(from, "Agent1", "Confirm", ["t", "b"], [id, true]),
        first.call(from, "Agent1", "RegisterConfirmer"),
        first.call(
          from,
          "Agent1",
          "ApproveTool",
          ["s", "s", "s"],
          [EFFECTS, "make", "0".repeat(64)],
        ),
        first.call(from, "Overlay1", "Respond", ["t", "b"], [question, true]),
        first.call(from, "Overlay1", "RespondTo", ["t", "u", "b"], [question, 1, true]),
        first.call(from, "Overlay1", "Respond", ["t", "b"], [Number(theirs.value?.[0]), true]),
        first.call(from, "Remote1", "SetConsent", ["s", "b"], ["prompt", true]),
        first.call(from, "Remote1", "SetKey", ["s", "s"], ["cloud", "key"]),
        first.call(from, "Remote1", "ClearKey", ["s"], ["cloud"]),
        first.call(from, "Remote1", "RemoveProvider", ["s"], ["cloud"]),
        first.call(from, "Remote1", "AddProvider", ["s", "s", "s"], ["x", "", "https://x.example"]),
        first.call(from, "Context1", "MemorySet", ["s", "s", "s"], [EFFECTS, "key", "value"]),
        first.call(from, "Context1", "MemoryWipe", ["s"], [EFFECTS]),
      ]),
    );
    expect(countOutcomes(attempts)).toEqual({ AccessDenied: attempts.length });
    for (const member of ["UndoCall", "UndoSkip"])
      expect(
        await first.call(connection, "Agent1", member, ["t"], [Number(mine?.callId)]),
      ).toMatchObject({ error: expect.stringMatching(/AccessDenied$/) });
    expect(await first.call(connection, "Overlay1", "Cancel", ["t"], [question])).toMatchObject({
      error: expect.stringMatching(/NotFound$/),
    });
    const [nothing] = (await first.call(connection, "Agent1", "Undo")).value ?? [];
    expect(JSON.parse(String(nothing))).toMatchObject({ status: "nothing" });

    expect(await harness.frontend.getRemoteState()).toEqual(state);
    expect(asked.end).toBeUndefined();
    await harness.frontend.respond(asked, false);
    expect((await harness.frontend.waitForEnd(asked)).end?.status).toBe("denied");
    await harness.frontend.call(
      "Overlay1",
      "Respond",
      "tb",
      BigInt(Number(theirs.value?.[0])),
      false,
    );
    expect((await user.confirm(BigInt(id), false))?.detail.code).toBe("declined");
    expect(await user.undo()).toMatchObject({ status: "undone", call_id: Number(mine?.callId) });
    expect(effects.effects().filter(({ mark }) => mark === "own")).toEqual([]);
    await harness.frontend.call("Remote1", "SetConsent", "sb", "prompt", true);
  });

  it("that requests a destructive call gets no approval before its hold time, however often it is confirmed", async () => {
    const connection = await first.connect();
    const parked = await request(first, connection, "unmake", '{"mark":"held"}');
    const id = BigInt(Number(parked.value?.[0]));
    const early = await Promise.all(
      Array.from({ length: 20 }, () => getCallOutcome(user.agent("Confirm", "tb", [id, true]))),
    );
    expect(new Set(early)).toEqual(new Set(["dev.assistant.Error.Busy"]));
    expect(effects.effects().filter(({ mark }) => mark === "held")).toEqual([]);
    const confirm = () => getCallOutcome(user.agent("Confirm", "tb", [id, true]));
    await expect.poll(confirm, { interval: 200 }).toBe("answered");
    expect(effects.effects().filter(({ mark }) => mark === "held")).toHaveLength(1);
  });

  it("cannot prevent the user's undo with an undo that hangs", async () => {
    const connection = await first.connect();
    const mine = await user.request(EFFECTS, "star", { mark: "undoable" });
    const own = await request(first, connection, "star", '{"mark":"undoable"}', HANGING);
    const confirmed = await user.confirm(BigInt(Number(own.value?.[0])));
    expect(confirmed?.status).toBe("executed");
    void first.call(connection, "Agent1", "Undo");
    await expect.poll(() => countReceived("unmake")).toBe(1);
    expect(await user.undo()).toMatchObject({ status: "undone", call_id: Number(mine?.callId) });
  });

  it("cannot fill the queue of searches, not even together with another app", async () => {
    const searches = [first, second].map(async (app) => {
      const connections = await app.connectMany(4);
      const calls = connections.flatMap((connection) =>
        Array.from({ length: 40 }, () =>
          app.call(
            connection,
            "Context1",
            "Search",
            ["s", "a{sv}"],
            ["boiler", { hybrid: ["b", true] }],
          ),
        ),
      );
      return countOutcomes(await Promise.all(calls));
    });
    await useAsUser("searches");
    for (const counts of await Promise.all(searches))
      expect((counts["answered"] ?? 0) + (counts["LimitsExceeded"] ?? 0)).toBe(160);
  });

  it("does not delay the end of the companion, and all its calls and queries are answered", async () => {
    const connections = await second.connectMany(4);
    const pending = connections.flatMap((connection) => [
      request(second, connection, "look", '{"mark":"hang"}', HANGING),
      request(second, connection, "make", '{"mark":"waits"}'),
      second.call(
        connection,
        "Overlay1",
        "Ask",
        ["s", "a{sv}"],
        ["#hang", { lane: ["s", "chat"], model_hint: ["s", LOCAL_MODEL] }],
      ),
    ]);
    const parkedIds = await Promise.all(
      pending.filter((_, at) => at % 3 !== 2).map(async (call) => (await call).value?.[0]),
    );
    for (const id of parkedIds.filter((_, at) => at % 2 === 0))
      void user.confirm(BigInt(Number(id)));
    await expect.poll(() => countReceived("look")).toBe(4);
    const own = user.request(HANGING, "look", { mark: "hang" });
    await expect.poll(() => countReceived("look")).toBe(5);
    expect(await harness.companion.stop()).toBe(0);
    expect((await own)?.detail.code).toBe("interrupted");
    expect(verifyLedgerAt(harness.dataDir)).toMatchObject({ status: "whole" });

    await harness.companion.start();
    for (const id of parkedIds.filter((_, at) => at % 2 === 1))
      expect((await user.confirm(BigInt(Number(id))))?.detail.code).toBe("restarted");
    expect(effects.effects().filter(({ mark }) => mark === "waits")).toEqual([]);
    await useAsUser("restarted");
  });
});
