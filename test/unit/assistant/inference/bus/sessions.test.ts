import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type { AnswerEvent } from "../../../../../src/assistant/inference/service-port.ts";
import {
  CLIENT,
  INFERENCE,
  InferenceBusHarness,
  openDescriptors,
  options,
  type TestSession,
} from "../../../../support/inference-bus-harness.ts";
import { accepted, forever, Gate, says, started } from "../../../../support/scripted-service.ts";
import { WAIT_OPTIONS } from "../../../../support/wait-limits.ts";

const code = (wanted: string) => expect.objectContaining({ code: wanted });
const end: AnswerEvent = { type: "end", choice: 0, reason: "stop", completionTokens: 3 };
const text = (words: string): AnswerEvent => ({ type: "text", choice: 0, text: words });

/** The number of sessions that the test opens and closes. BERTH_SESSION_ROUNDS changes it. */
const ROUNDS = Number(process.env["BERTH_SESSION_ROUNDS"] ?? 300);

const until = (is: () => boolean) => vi.waitUntil(is, { ...WAIT_OPTIONS, interval: 2 });

async function finishedOnce(session: TestSession) {
  await until(() => session.finished().length > 0);
  return session.finished();
}

async function closedAfterUse(session: TestSession): Promise<void> {
  await session.generate();
  await session.message();
  await session.call("Close");
  session.closeReader();
}

async function* endless(_: unknown, signal: AbortSignal): AsyncGenerator<AnswerEvent> {
  yield accepted;
  yield text("so far");
  // The session pulls the next event of the answer once the pipe has accepted the previous one.
  yield text("");
  await forever(signal);
}

describe("a message of a session", () => {
  it("arrives over the pipe as UTF-8 and ends with EOF, and Finished reports the result", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = (request) => says(request, ["Grüße ", "", "🌱", "\0.", "世界"]);
    const session = await harness.open();
    expect(session.state).toBe("open");
    expect(await session.generate("Say hello")).toEqual([]);
    expect(session.state).toBe("generating");
    expect(await session.message()).toBe("Grüße 🌱\0.世界");
    expect(await finishedOnce(session)).toEqual([
      {
        status: "completed",
        to: CLIENT,
        detail: {
          v: 1,
          code: "ok",
          message: "",
          usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 },
          finish_reason: "stop",
        },
      },
    ]);
    expect(session.state).toBe("open");
  });

  it("is passed to the inference service unchanged, without a chat template", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open(CLIENT, options({ model_hint: "default" }));
    await session.generate(
      "Once upon",
      options({ schema: '{"type":"object"}', max_tokens: 7, priority: "background" }),
    );
    await session.message();
    expect(harness.service.requests).toEqual([
      expect.objectContaining({
        model: "default",
        prompts: [{ kind: "text", text: "Once upon" }],
        maxTokens: 7,
        priority: "background",
        guide: { kind: "json_schema", name: undefined, schema: { type: "object" }, strict: false },
        isStreamed: true,
      }),
    ]);
  });

  it("can follow another message in the same session any number of times", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    for (let round = 0; round < 20; round += 1) {
      harness.service.script = (request) => says(request, [`message ${round}`]);
      await session.generate();
      expect(await session.message()).toBe(`message ${round}`);
      await until(() => session.state === "open");
    }
    expect(session.finished().map(({ status }) => status)).toEqual(Array(20).fill("completed"));
  });

  it("is not mixed with unread text of the previous message", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    await session.generate();
    await until(() => session.state === "open");
    harness.service.script = (request) => says(request, ["second"]);
    await session.generate();
    expect(await session.message()).toBe("second");
  });

  it("reaches a reader that starts to read before Generate", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    const read = session.message();
    await session.generate();
    expect(await read).toBe("Hello there");
  });

  it("without text consists of EOF only, and Finished is emitted after the reply of Generate", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = (request) => says(request, []);
    const session = await harness.open();
    const order: string[] = [];
    harness.bus.onSignal = ({ name }) => order.push(name);
    await session.generate();
    for (let hop = 0; hop < 50; hop += 1) await Promise.resolve();
    order.push("answer");
    expect(await session.message()).toBe("");
    await finishedOnce(session);
    expect(order).toEqual(["answer", "Finished"]);
  });

  it("that fails midway keeps its text so far, ends with EOF, and reports the reason", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = function* () {
      yield accepted;
      yield text("half of it");
      throw new AssistantError("engine_failed", "the model's process ended");
    };
    const session = await harness.open();
    await session.generate();
    expect(await session.message()).toBe("half of it");
    expect(await finishedOnce(session)).toMatchObject([
      {
        status: "failed",
        detail: { code: "engine_failed", message: "the model's process ended", usage: null },
      },
    ]);
    await session.generate();
    expect(session.state).toBe("generating");
  });

  it("that fails unexpectedly reveals no internal details", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = function* () {
      yield accepted;
      throw new TypeError("/home/secret is not a function");
    };
    const session = await harness.open();
    await session.generate();
    const [finished] = await finishedOnce(session);
    expect(finished).toMatchObject({ status: "failed", detail: { code: "internal" } });
    expect(JSON.stringify(finished)).not.toContain("secret");
  });

  it("that is refused makes Generate fail, and the session stays open", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = () => {
      throw new AssistantError("ledger_unavailable", "the ledger cannot be written");
    };
    const session = await harness.open();
    await expect(session.generate()).rejects.toEqual(code("ledger_unavailable"));
    expect([session.state, session.finished()]).toEqual(["open", []]);
    harness.service.script = (request) => says(request, ["now"]);
    await session.generate();
    expect(await session.message()).toBe("now");
  });
});

describe("the reader of a session's pipe", () => {
  it("that is slow delays its own message, but no other sessions", async () => {
    const harness = new InferenceBusHarness();
    const piece = "x".repeat(1_000);
    harness.service.script = function* (request) {
      yield accepted;
      const many = request.prompts[0]?.kind === "text" && request.prompts[0].text === "long";
      for (let sent = 0; sent < (many ? 1_000 : 3); sent += 1) yield text(piece);
      yield end;
    };
    const slow = await harness.open();
    await slow.generate("long");
    const pulled = () => harness.service.pulled;
    // A pipe holds 64 KiB, so the next piece of text must wait for the reader.
    await until(() => pulled() > 60);
    const quick = await harness.open(":1.6");
    await quick.generate("short");
    expect(await quick.message()).toBe(piece.repeat(3));
    const before = pulled();
    expect(before).toBeLessThan(80);
    expect((await slow.readSome(8_192)).length).toBe(8_192);
    await until(() => pulled() > before);
    expect(pulled()).toBeLessThan(90);
    expect(slow.state).toBe("generating");
    expect((await slow.message()).length).toBe(1_000_000 - 8_192);
    expect((await finishedOnce(slow))[0]?.status).toBe("completed");
  });

  it("that closes its end during a message cancels the generation", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = function* () {
      yield accepted;
      for (;;) yield text("x".repeat(1_000));
    };
    const session = await harness.open();
    await session.generate();
    await session.readSome();
    session.closeReader();
    expect(await finishedOnce(session)).toMatchObject([
      { status: "cancelled", detail: { message: "the session's pipe has no reader any more" } },
    ]);
    await until(() => harness.service.running === 0);
    expect(harness.service.aborted).toBe(1);
    await expect(session.generate()).rejects.toEqual(code("not_found"));
  });

  it("that closes its end before the first text cancels the message within a second", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = async function* (_, signal) {
      yield accepted;
      await forever(signal);
    };
    const session = await harness.open();
    await session.generate();
    await harness.clock.advance(5_000);
    expect(session.state).toBe("generating");
    session.closeReader();
    await harness.clock.advance(1_000);
    expect(session.finished()).toMatchObject([{ status: "cancelled" }]);
    await until(() => harness.service.running === 0);
  });

  it("that closed its end before Generate makes Generate fail before the model is called", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    session.closeReader();
    await expect(session.generate()).rejects.toEqual(code("not_found"));
    expect(harness.service.requests).toEqual([]);
  });
});

describe("the method Cancel of a session", () => {
  it("ends the message at once, between two code points, even if the pipe is full", async () => {
    const harness = new InferenceBusHarness();
    // Each character has 3 bytes. A pipe is full in the middle of a character, because its size is no multiple of 3.
    const piece = "世".repeat(2_001);
    harness.service.script = function* () {
      yield accepted;
      for (;;) yield text(piece);
    };
    const session = await harness.open();
    await session.generate();
    await until(() => harness.service.pulled >= 8);
    await session.call("Cancel");
    expect(session.state).toBe("open");
    expect(session.finished()).toMatchObject([{ status: "cancelled" }]);
    const message = await session.message();
    expect(message).toMatch(/^世{10000,}$/);
    await until(() => harness.service.running === 0);
  });

  it("frees the session for the next message at once and discards unread text", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = async function* (_, signal) {
      yield accepted;
      yield text("old");
      yield text("");
      await forever(signal);
    };
    const session = await harness.open();
    await session.generate();
    await until(() => harness.service.pulled === 3);
    await session.call("Cancel");
    harness.service.script = (request) => says(request, ["new"]);
    await session.generate();
    expect(await session.message()).toBe("new");
    await until(() => session.finished().length === 2);
    expect(session.finished().map(({ status }) => status)).toEqual(["cancelled", "completed"]);
  });

  it("makes Generate fail, and sends EOF to a waiting reader, if the service has not accepted the message yet", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = async function* (_, signal) {
      await forever(signal);
      yield accepted;
    };
    const session = await harness.open();
    const read = session.message();
    const asked = session.generate();
    asked.catch(() => {});
    await until(() => harness.service.running === 1);
    await session.call("Cancel");
    await expect(asked).rejects.toEqual(code("cancelled"));
    expect(await read).toBe("");
    expect([session.state, session.finished()]).toEqual(["open", []]);
    await until(() => harness.service.running === 0);
  });

  it("does nothing if nothing is being generated", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    expect(await session.call("Cancel")).toEqual([]);
    const read = session.message();
    await session.generate();
    expect(await read).toBe("Hello there");
  });
});

describe("the end of a session", () => {
  it("by Close sends EOF, ends the generation and removes the object", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = endless;
    const session = await harness.open();
    await session.generate();
    await until(() => harness.service.pulled === 3);
    expect(await session.call("Close")).toEqual([]);
    expect(await session.message()).toBe("so far");
    expect(harness.bus.served.has(session.path)).toBe(false);
    expect(session.finished()).toMatchObject([
      { status: "cancelled", detail: { code: "cancelled", message: "the session was closed" } },
    ]);
    expect(harness.objects.sessionCount).toBe(0);
    expect(harness.bus.countWatchers(CLIENT)).toBe(0);
    await until(() => harness.service.running === 0);
  });

  it("by a disconnection of its owner ends all sessions of that owner, and no others", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = endless;
    const sessions = await Promise.all([harness.open(), harness.open(), harness.open(":1.9")]);
    for (const session of sessions) await session.generate();
    harness.bus.disconnect(CLIENT);
    await until(() => harness.service.running === 1);
    expect(sessions.map(({ path }) => harness.bus.served.has(path))).toEqual([false, false, true]);
  });

  it("by shutdown ends all sessions and leaves no files behind", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = endless;
    const sessions = await Promise.all([harness.open(), harness.open(":1.9")]);
    for (const session of sessions) await session.generate();
    await harness.objects[Symbol.asyncDispose]();
    for (const session of sessions) {
      expect(await session.message()).toMatch(/^(so far)?$/);
      expect(session.finished()).toMatchObject([
        {
          status: "cancelled",
          detail: { code: "shutting_down", message: "the companion is shutting down" },
        },
      ]);
    }
    expect(harness.bus.served.size).toBe(0);
    expect(readdirSync(harness.runtimeDir)).toEqual([]);
    await until(() => harness.service.running === 0);
  });

  it(`does not leave a file descriptor open, in ${ROUNDS} sessions`, async () => {
    const harness = new InferenceBusHarness();
    await closedAfterUse(await harness.open());
    const before = openDescriptors();
    for (let round = 0; round < ROUNDS; round += 1) {
      const session = await harness.open();
      if (round % 3 === 0) await closedAfterUse(session);
      else if (round % 3 === 1) {
        session.closeReader();
        await session.call("Close");
      } else {
        harness.bus.disconnect(CLIENT);
        session.closeReader();
      }
    }
    // The processes that create FIFOs may still run; their pipes to this process are closed when they exit.
    await until(() => openDescriptors() <= before);
    expect(harness.objects.sessionCount).toBe(0);
  }, 300_000);
});

describe("limits of the inference bus", () => {
  it("a session accepts one message at a time", async () => {
    const harness = new InferenceBusHarness();
    const gate = new Gate();
    harness.service.script = async function* (request) {
      await gate.opened;
      yield* says(request, ["x"]);
    };
    const session = await harness.open();
    const first = session.generate();
    await expect(session.generate()).rejects.toEqual(code("busy"));
    gate.open();
    await first;
    await expect(session.generate()).rejects.toEqual(code("busy"));
    expect(await session.message()).toBe("x");
    expect(harness.service.requests.length).toBe(1);
  });

  it("a connection has at most 64 sessions, and Close or a failed open makes space for another one", async () => {
    const harness = new InferenceBusHarness();
    for (let failures = 0; failures < 100; failures += 1)
      await expect(harness.open(CLIENT, options({ model_hint: "none" }))).rejects.toEqual(
        code("model_not_found"),
      );
    const sessions = await Promise.all(Array.from({ length: 64 }, () => harness.open()));
    await expect(harness.open()).rejects.toEqual(code("limits_exceeded"));
    await harness.open(":1.6");
    await sessions[0]?.call("Close");
    await harness.open();
  });

  it("there are at most 1,024 sessions in total; a sandboxed app has at most 64 of them, and all together have 768", async () => {
    const harness = new InferenceBusHarness();
    const openAs = async (app: number, connection: string) => {
      harness.bus.apps.set(connection, { id: `org.example.App${app}`, kind: "flatpak" });
      (await harness.open(connection)).closeReader();
    };
    for (let app = 0; app < 12; app += 1) {
      for (let session = 0; session < 64; session += 1)
        await openAs(app, `:3.${app * 20 + (session % 20)}`);
      await expect(openAs(app, `:4.${app}`)).rejects.toEqual(code("limits_exceeded"));
    }
    await expect(openAs(12, ":4.12")).rejects.toThrow("sandboxed apps have 768 sessions open");
    for (let client = 0; client < 4; client += 1)
      for (let session = 0; session < 64; session += 1)
        (await harness.open(`:2.${client}`)).closeReader();
    await expect(harness.open()).rejects.toEqual(code("limits_exceeded"));
    harness.bus.disconnect(":3.0");
    await harness.open();
    await openAs(12, ":4.12");
  });

  it("a sandboxed app has at most 8 messages and embeddings in progress, all such apps 16, and other programs as many as they have sessions", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = endless;
    harness.service.embedder = (_, signal) => forever(signal);
    const openAs = (app: number, connection: string) => {
      harness.bus.apps.set(connection, { id: `org.example.App${app}`, kind: "flatpak" });
      return harness.open(connection);
    };
    const first = await openAs(1, ":3.0");
    for (const app of [1, 2]) {
      for (let at = 1; at < 8; at += 1) await (await openAs(app, `:3.${app}.${at % 3}`)).generate();
      const last = app === 1 ? first : await openAs(2, ":3.2.9");
      last.call("Embed", ["x"]).catch(() => {});
      await until(() => harness.service.embeds.length === app);
      const refused = await openAs(app, `:3.${app}.4`);
      await expect(refused.generate()).rejects.toEqual(code("limits_exceeded"));
      await expect(refused.call("Embed", ["x"])).rejects.toEqual(code("limits_exceeded"));
    }
    const third = await openAs(3, ":3.30");
    await expect(third.generate()).rejects.toThrow("sandboxed apps have 16 requests in progress");
    for (let at = 0; at < 20; at += 1) await (await harness.open()).generate();
    await first.call("Close");
    await third.generate();
  });

  it.each([
    ["model_hint", new Map([["model_hint", { signature: "u", value: 5 }]])],
    ["model", options({ model: "tiny" })],
  ])("OpenSession refuses an invalid %s", async (param, given) => {
    const harness = new InferenceBusHarness();
    await expect(harness.open(CLIENT, given)).rejects.toMatchObject({
      code: "invalid_request",
      param,
    });
  });

  it.each([
    ["max_tokens", options({ max_tokens: 0 })],
    ["priority", options({ priority: "urgent" })],
    ["schema", options({ schema: '{"type":' })],
    ["schema", options({ schema: "[]" })],
    ["temperature", options({ temperature: "0" })],
  ])("Generate refuses an invalid %s", async (param, given) => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    await expect(session.generate("secret words", given)).rejects.toMatchObject({
      code: "invalid_request",
      param,
      message: expect.not.stringContaining("secret"),
    });
    expect([session.state, harness.service.requests]).toEqual(["open", []]);
  });

  it("a prompt may have exactly 4 MiB, and not a byte more", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    await session.generate("x".repeat(4 * 1024 * 1024));
    await expect(session.generate("x".repeat(4 * 1024 * 1024 + 1))).rejects.toEqual(
      code("payload_too_large"),
    );
  });
});

describe("access to a session", () => {
  it("only the connection that opened a session may call it, while others may read its state", async () => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    for (const [method, ...args] of [
      ["Generate", "x", options()],
      ["Embed", ["x"]],
      ["Cancel"],
      ["Close"],
    ] as const)
      await expect(harness.bus.call(":1.6", session.path, method, ...args)).rejects.toEqual(
        code("forbidden"),
      );
    expect(harness.bus.property(session.path, "State")).toBe("open");
    expect(harness.service.requests).toEqual([]);
  });
});

describe("the method Embed of a session", () => {
  it("returns a vector for each text, even while a message is in progress", async () => {
    const harness = new InferenceBusHarness();
    harness.service.script = async function* (_, signal) {
      yield accepted;
      yield started();
      await forever(signal);
    };
    const session = await harness.open(CLIENT, options({ model_hint: "hub/org/embedder:q8" }));
    await session.generate();
    const [vectors] = await session.call("Embed", ["one", "two"]);
    expect(vectors).toEqual([
      expect.arrayContaining([expect.any(Number)]),
      expect.arrayContaining([expect.any(Number)]),
    ]);
    expect(harness.service.embeds).toMatchObject([
      { model: "hub/org/embedder:q8", texts: ["one", "two"] },
    ]);
  });

  it.each([
    ["texts", []],
    ["texts[1]", ["x", ""]],
    ["texts", Array(2_049).fill("x")],
  ])("refuses %s", async (param, texts) => {
    const harness = new InferenceBusHarness();
    const session = await harness.open();
    await expect(session.call("Embed", texts)).rejects.toMatchObject({
      code: "invalid_request",
      param,
    });
  });

  it("ends when its session ends", async () => {
    const harness = new InferenceBusHarness();
    harness.service.embedder = (_, signal) => forever(signal);
    const session = await harness.open();
    const asked = session.call("Embed", ["x"]);
    asked.catch(() => {});
    await session.call("Close");
    await expect(asked).rejects.toEqual(code("not_found"));
  });
});

it("Ping and Version return the daemon's name and version", async () => {
  const harness = new InferenceBusHarness();
  expect(await harness.bus.call(CLIENT, INFERENCE, "Ping")).toEqual(["berth 0.0.0-test"]);
  expect(harness.bus.property(INFERENCE, "Version")).toBe(1);
});

it("FIFOs are created again if another program has emptied their directory", async () => {
  const harness = new InferenceBusHarness();
  await harness.open();
  rmSync(join(harness.runtimeDir, "pipes"), { recursive: true });
  const session = await harness.open();
  await session.generate();
  expect(await session.message()).toBe("Hello there");
});
