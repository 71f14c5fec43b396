import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { InferenceObjects } from "../../src/assistant/inference/bus/inference-objects.ts";
import type { AnswerEvent, GenerateRequest } from "../../src/assistant/inference/service-port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { BusHarness } from "../support/bus-harness.ts";
import { openDescriptors } from "../support/inference-bus-harness.ts";
import {
  accepted,
  forever,
  ScriptedService,
  says,
  textOfPrompt,
} from "../support/scripted-service.ts";
import { SessionClient } from "../support/session-client.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const NAME = "dev.assistant.Inference1";
const PATH = "/dev/assistant/Inference1";
const SESSION = "dev.assistant.Inference1.Session";
const textEvent = (content: string): AnswerEvent => ({ type: "text", choice: 0, text: content });

/** The number of sessions that the leak test opens, uses and closes. 10,000 sessions take 40 seconds. */
const ROUNDS = Number(process.env["BERTH_SESSION_ROUNDS"] ?? 200);

const until = (is: () => boolean) => vi.waitUntil(is, { ...WAIT_OPTIONS, interval: 5 });

const runtimeDir = mkdtempSync(join(tmpdir(), "berth-pipes-"));
const service = new ScriptedService();
let harness: BusHarness;
let objects: InferenceObjects;
let client: SessionClient;

beforeAll(async () => {
  harness = await BusHarness.start({
    limits: { calls: { burst: 1e9, perSecond: 1e9 }, runningMax: 64, heldBytesMax: 2 ** 25 },
  });
  objects = new InferenceObjects({
    bus: harness.daemon,
    service,
    runtimeDir,
    clock: systemClock,
    daemon: "berth 0.0.0-test",
  });
  await harness.daemon.requestName(NAME);
  client = await SessionClient.start(harness.bus);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await objects[Symbol.asyncDispose]();
  await harness[Symbol.asyncDispose]();
  rmSync(runtimeDir, { recursive: true, force: true });
});
beforeEach(() => {
  service.script = (request) => says(request, ["Hello", " ", "there"]);
});

/** A script that emits one text, and then nothing until it is aborted. */
async function* thinking(_: GenerateRequest, signal: AbortSignal): AsyncGenerator<AnswerEvent> {
  yield accepted;
  yield textEvent("so far");
  yield textEvent("");
  await forever(signal);
}

/** A script that emits text faster than a client reads, without an end. */
function* flood(): Generator<AnswerEvent> {
  yield accepted;
  for (;;) yield textEvent("x".repeat(4_000));
}

describe("a session on a real bus", () => {
  it("gives its client the read end of a blocking pipe", async () => {
    const opened = await client.ask("open", { model_hint: "default" });
    expect(opened).toEqual({
      path: expect.stringMatching(/^\/dev\/assistant\/Inference1\/session\/[0-9a-f]{16}$/),
      blocks: true,
      access: 0,
      descriptors: 1,
    });
  });

  it("streams one message after another, each up to its EOF, followed by Finished", async () => {
    service.script = (request) => says(request, ["«", textOfPrompt(request.prompts[0]), "» 🌱"]);
    const session = await client.open();
    for (const prompt of ["eins", "zwei", "drei"]) {
      await client.ask("generate", session, prompt, { max_tokens: 5 });
      expect(await client.ask("read", session, null)).toBe(`«${prompt}» 🌱`);
    }
    const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
    const detail = { v: 1, code: "ok", message: "", usage, finish_reason: "stop" };
    const one = { path: session, status: "completed", detail };
    expect(await client.ask("finished", 3)).toEqual([one, one, one]);
    await until(() => service.running === 0);
    expect(await client.ask("state", session)).toBe("open");
  });

  it("returns embeddings", async () => {
    const session = await client.open();
    const vectors = await client.ask("embed", session, ["a", "b"]);
    expect(vectors).toEqual([Array(8).fill(expect.any(Number)), Array(8).fill(expect.any(Number))]);
  });

  it("reaches EOF at once when it is cancelled, and can generate again", async () => {
    service.script = thinking;
    const session = await client.open();
    await client.ask("generate", session, "x", {});
    expect(await client.ask("read", session, 6)).toBe("so far");
    expect(await client.ask("state", session)).toBe("generating");
    await client.ask("call", session, "Cancel");
    expect(await client.ask("read", session, null)).toBe("");
    await until(() => service.running === 0);
    service.script = (request) => says(request, ["again"]);
    await client.ask("generate", session, "x", {});
    expect(await client.ask("read", session, null)).toBe("again");
  });

  it("is removed by Close, and its reader gets EOF", async () => {
    service.script = thinking;
    const session = await client.open();
    await client.ask("generate", session, "x", {});
    await client.ask("call", session, "Close");
    await client.ask("read", session, null);
    await until(() => service.running === 0);
    for (const method of ["Close", "Cancel"])
      await expect(client.ask("call", session, method)).rejects.toThrow("UnknownObject");
  });
});

describe("errors have the names that the specification gives them", () => {
  it.each([
    ["an unknown model", { model_hint: "none" }, "dev.assistant.Error.NotFound"],
    ["a wrong type", { model_hint: 5 }, "org.freedesktop.DBus.Error.InvalidArgs"],
  ])("OpenSession rejects %s", async (_, given, name) => {
    await expect(client.ask("open", given)).rejects.toThrow(name);
  });

  it("Generate rejects a schema that is not JSON, and a second message during the first", async () => {
    const session = await client.open();
    await expect(client.ask("generate", session, "x", { schema: "{" })).rejects.toThrow(
      "org.freedesktop.DBus.Error.InvalidArgs",
    );
    service.script = thinking;
    await client.ask("generate", session, "x", {});
    await expect(client.ask("generate", session, "x", {})).rejects.toThrow(
      "dev.assistant.Error.Busy",
    );
    await client.ask("call", session, "Close");
  });

  it("a call of a session's method by another connection fails with AccessDenied, and a read of its properties succeeds", async () => {
    const session = await client.open();
    await using other = await SessionClient.start(harness.bus);
    for (const [command, ...args] of [
      ["call", session, "Cancel"],
      ["call", session, "Close"],
      ["generate", session, "x", {}],
      ["embed", session, ["x"]],
    ] as const)
      await expect(other.ask(command, ...args)).rejects.toThrow(
        "org.freedesktop.DBus.Error.AccessDenied",
      );
    expect(await other.ask("state", session)).toBe("open");
    expect(await harness.bus.busctlProperty(NAME, session, SESSION, "Version")).toBe(1);
  });

  it("the 65th session of a connection fails with LimitsExceeded", async () => {
    await using greedy = await SessionClient.start(harness.bus);
    for (let session = 0; session < 64; session += 1) await greedy.open();
    await expect(greedy.open()).rejects.toThrow("org.freedesktop.DBus.Error.LimitsExceeded");
  });
});

describe("a client of the inference bus", () => {
  it("that does not read does not delay another client's stream", async () => {
    service.script = (request) =>
      textOfPrompt(request.prompts[0]) === "flood" ? flood() : says(request, ["quick"]);
    const slow = await client.open();
    const before = service.pulled;
    await client.ask("generate", slow, "flood", {});
    // The pipe holds 64 KiB, so the generation must wait for the reader.
    await until(() => service.pulled >= before + 15);
    await using other = await SessionClient.start(harness.bus);
    const quick = await other.open();
    for (let round = 0; round < 20; round += 1) {
      await other.ask("generate", quick, "x", {});
      expect(await other.ask("read", quick, null)).toBe("quick");
    }
    expect(await client.ask("state", slow)).toBe("generating");
    expect(service.pulled).toBeLessThan(before + 20 + 20 * 4);
    expect(await client.ask("read", slow, 200_000)).toBe("x".repeat(200_000));
    await client.ask("call", slow, "Close");
    await until(() => service.running === 0);
  });

  it("that closes its pipe cancels the generation, and gets Finished", async () => {
    service.script = flood;
    await using one = await SessionClient.start(harness.bus);
    const session = await one.open();
    await one.ask("generate", session, "x", {});
    await one.ask("close_pipe", session);
    expect(await one.ask("finished", 1)).toMatchObject([
      { path: session, status: "cancelled", detail: { code: "cancelled" } },
    ]);
    await until(() => service.running === 0);
    await expect(one.ask("generate", session, "x", {})).rejects.toThrow(
      "dev.assistant.Error.NotFound",
    );
  });

  it("that is killed ends its own sessions and generations only", async () => {
    const mine = await client.open();
    const others = objects.sessionCount;
    const victim = await SessionClient.start(harness.bus);
    service.script = thinking;
    const sessions = [await victim.open(), await victim.open()];
    for (const session of sessions) await victim.ask("generate", session, "x", {});
    expect([service.running, objects.sessionCount]).toEqual([2, others + 2]);
    await victim.kill();
    await until(() => service.running === 0 && objects.sessionCount === others);
    expect(await client.ask("state", mine)).toBe("open");
    for (const session of sessions)
      await expect(client.ask("state", session)).rejects.toThrow("UnknownObject");
  });

  it("receives signals of its own messages only", async () => {
    await using one = await SessionClient.start(harness.bus);
    await using two = await SessionClient.start(harness.bus);
    await two.open();
    const session = await one.open();
    await one.ask("generate", session, "x", {});
    expect(await one.ask("finished", 1)).toHaveLength(1);
    // The bus delivers in order, so the answer to `open` arrives after every signal that was sent to the client.
    await two.open();
    expect(await two.ask("finished", 0)).toEqual([]);
  });

  it(`opens, uses and closes ${ROUNDS} sessions without leaking a descriptor`, async () => {
    await using one = await SessionClient.start(harness.bus);
    await one.ask("rounds", 20);
    const before = openDescriptors();
    const sessions = objects.sessionCount;
    await one.ask("rounds", ROUNDS);
    await until(() => openDescriptors() <= before);
    expect(objects.sessionCount).toBe(sessions);
  }, 600_000);
});

it("gdbus can call Ping and read Version", async () => {
  expect(await harness.bus.gdbusCall(NAME, PATH, `${NAME}.Ping`)).toBe("('berth 0.0.0-test',)");
  expect(await harness.bus.busctlProperty(NAME, PATH, NAME, "Version")).toBe(1);
});
