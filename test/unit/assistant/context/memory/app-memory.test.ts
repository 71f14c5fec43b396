import { describe, expect, it } from "vitest";
import {
  MemoryHarness,
  NOTES,
  OTHER,
  sandboxedCaller,
  unconfinedCaller,
} from "../../../../support/memory-harness.ts";
import { UNBOUNDED_AFTER_MS } from "../../../../support/wait-limits.ts";

const code = (wanted: string) => expect.objectContaining({ code: wanted });

describe("a value in the memory of an app", () => {
  it("is returned, even after a restart, and is overwritten by a write to the same key", async () => {
    const harness = new MemoryHarness();
    await harness.memory.set(NOTES, "colour", "blue", unconfinedCaller);
    await harness.memory.set(NOTES, "süß 🍬", "", unconfinedCaller);
    await harness.memory.set(NOTES, "colour", "grün\0🌱", unconfinedCaller);
    await harness.restart();
    expect(await harness.memory.get(NOTES, "colour", unconfinedCaller)).toBe("grün\0🌱");
    expect([...(await harness.memory.list(NOTES, unconfinedCaller))]).toEqual([
      ["colour", "grün\0🌱"],
      ["süß 🍬", ""],
    ]);
  });

  it("is not found under a key that differs in case, and not listed in another app's memory", async () => {
    const { memory } = new MemoryHarness();
    await expect(memory.get(NOTES, "colour", unconfinedCaller)).rejects.toEqual(code("not_found"));
    await memory.set(NOTES, "colour", "blue", unconfinedCaller);
    await expect(memory.get(NOTES, "Colour", unconfinedCaller)).rejects.toEqual(code("not_found"));
    expect((await memory.list(OTHER, unconfinedCaller)).size).toBe(0);
  });

  it("belongs to one app, and remains when the memory of another app is wiped", async () => {
    const { memory } = new MemoryHarness();
    await memory.set(NOTES, "colour", "blue", unconfinedCaller);
    await memory.set(OTHER, "colour", "red", unconfinedCaller);
    await memory.wipe(NOTES, unconfinedCaller);
    await expect(memory.get(NOTES, "colour", unconfinedCaller)).rejects.toEqual(code("not_found"));
    expect(await memory.get(OTHER, "colour", unconfinedCaller)).toBe("red");
    await memory.set(NOTES, "colour", "green", unconfinedCaller);
    expect(await memory.get(NOTES, "colour", unconfinedCaller)).toBe("green");
  });

  it("is returned by a call that follows the write, even if the caller has not waited for the result of the write", async () => {
    const { memory } = new MemoryHarness();
    const first = memory.set(NOTES, "n", "1", unconfinedCaller);
    const read = memory.get(NOTES, "n", unconfinedCaller);
    const wiped = memory.wipe(NOTES, unconfinedCaller);
    const gone = memory.list(NOTES, unconfinedCaller);
    const second = memory.set(NOTES, "n", "2", unconfinedCaller);
    expect(await read).toBe("1");
    expect((await gone).size).toBe(0);
    await Promise.all([first, wiped, second]);
    expect(await memory.get(NOTES, "n", unconfinedCaller)).toBe("2");
  });
});

describe("the list of the apps that have values", () => {
  it("has each app with its usage, and no app without values", async () => {
    const { memory } = new MemoryHarness();
    expect(await memory.apps(unconfinedCaller)).toEqual([]);
    await memory.set(OTHER, "n", "22", unconfinedCaller);
    await memory.set(NOTES, "colour", "blue", unconfinedCaller);
    await memory.set(NOTES, "n", "", unconfinedCaller);
    expect(await memory.apps(unconfinedCaller)).toEqual([
      { app: NOTES, keys: 2, bytes: 11 },
      { app: OTHER, keys: 1, bytes: 3 },
    ]);
    await memory.wipe(NOTES, unconfinedCaller);
    expect(await memory.apps(unconfinedCaller)).toMatchObject([{ app: OTHER }]);
  });

  it("has only the caller's own app if the caller is sandboxed", async () => {
    const { memory } = new MemoryHarness();
    await memory.set(NOTES, "colour", "blue", unconfinedCaller);
    expect(await memory.apps(sandboxedCaller(NOTES))).toMatchObject([{ app: NOTES }]);
    expect(await memory.apps(sandboxedCaller(OTHER))).toEqual([]);
  });

  it("is refused while the companion shuts down", async () => {
    const { memory } = new MemoryHarness();
    await memory[Symbol.asyncDispose]();
    await expect(memory.apps(unconfinedCaller)).rejects.toEqual(code("shutting_down"));
  });
});

describe("access to the memory of apps", () => {
  it.each(["flatpak", "snap"] as const)(
    "an app in a %s may use only its own memory",
    async (kind) => {
      const { memory, ledger } = new MemoryHarness();
      const app = sandboxedCaller(NOTES, kind);
      await memory.set(NOTES, "k", "v", app);
      expect(await memory.get(NOTES, "k", app)).toBe("v");
      for (const call of [
        memory.get(OTHER, "k", app),
        memory.set(OTHER, "k", "v", app),
        memory.list(OTHER, app),
        memory.wipe(OTHER, app),
        memory.wipe("", app),
      ])
        await expect(call).rejects.toEqual(code("forbidden"));
      expect(ledger.entries.map(({ name }) => name)).toEqual(["memory.set"]);
    },
  );

  it("a program in a systemd unit may use the memory of any app", async () => {
    const { memory } = new MemoryHarness();
    await memory.set(OTHER, "k", "v", sandboxedCaller(NOTES, "unit"));
    expect(await memory.get(OTHER, "k", unconfinedCaller)).toBe("v");
  });

  it("a snap whose name has no dot may use its own memory", async () => {
    const { memory } = new MemoryHarness();
    await memory.set("firefox", "k", "v", sandboxedCaller("firefox", "snap"));
    await expect(memory.get("firefox", "k", unconfinedCaller)).rejects.toEqual(
      code("invalid_request"),
    );
  });
});

describe("limits on the memory of apps", () => {
  it.each([
    ["", "no id"],
    ["notes", "no dot"],
    ["../../etc.passwd", "a path"],
    [".org.example", "a dot at the start"],
    ["org..example", "two dots"],
    ["org.exämple", "letters of no file name"],
    [`org.${"x".repeat(252)}`, "256 bytes"],
  ])("the app id %j is refused: %s", async (app) => {
    const { memory, ledger } = new MemoryHarness();
    await expect(memory.set(app, "k", "v", unconfinedCaller)).rejects.toMatchObject({
      code: "invalid_request",
      param: "app",
    });
    expect(ledger.entries).toEqual([]);
  });

  it("an app id has at most 255 bytes, a key 256, a value 64 KiB", async () => {
    const { memory, ledger } = new MemoryHarness();
    const app = `org.${"x".repeat(251)}`;
    const key = "ü".repeat(128);
    const value = "€".repeat(21_845).concat("x");
    await memory.set(app, key, value, unconfinedCaller);
    expect(await memory.get(app, key, unconfinedCaller)).toBe(value);
    for (const [badKey, badValue, param] of [
      [`${key}x`, "", "key"],
      ["", "", "key"],
      ["\ud800", "", "key"],
      ["k", `${value}x`, "value"],
      ["k", "a\udc00", "value"],
    ] as const)
      await expect(memory.set(app, badKey, badValue, unconfinedCaller)).rejects.toMatchObject({
        code: "invalid_request",
        param,
      });
    expect(ledger.entries.length).toBe(1);
  });

  it("an app has at most 16 MiB including keys, and can replace a value by a smaller one when it has reached the limit", async () => {
    const { memory, ledger } = new MemoryHarness();
    const value = "x".repeat(65_526);
    for (let number = 0; number < 256; number += 1)
      await memory.set(NOTES, `key-${String(number).padStart(6, "0")}`, value, unconfinedCaller);
    const entries = ledger.entries.length;
    await expect(memory.set(NOTES, "k", "", unconfinedCaller)).rejects.toEqual(
      code("limits_exceeded"),
    );
    await expect(memory.set(NOTES, "key-000000", `${value}x`, unconfinedCaller)).rejects.toEqual(
      code("limits_exceeded"),
    );
    expect(ledger.entries.length).toBe(entries);
    await memory.set(OTHER, "k", "v", unconfinedCaller);
    await memory.set(NOTES, "key-000000", value.slice(1), unconfinedCaller);
    await memory.set(NOTES, "k", "", unconfinedCaller);
    const startedAt = performance.now();
    expect((await memory.list(NOTES, unconfinedCaller)).size).toBe(257);
    const listedAt = performance.now();
    await memory.wipe(NOTES, unconfinedCaller);
    expect(listedAt - startedAt).toBeLessThan(UNBOUNDED_AFTER_MS);
    expect(performance.now() - listedAt).toBeLessThan(UNBOUNDED_AFTER_MS);
  });

  it("an app has at most 10,000 keys, and an existing one can still be overwritten", async () => {
    const harness = new MemoryHarness();
    await harness.memory.set(NOTES, "first", "", unconfinedCaller);
    await harness.memory[Symbol.asyncDispose]();
    harness.setKeyCount(NOTES, 10_000);
    await harness.restart();
    await expect(harness.memory.set(NOTES, "another", "", unconfinedCaller)).rejects.toEqual(
      code("limits_exceeded"),
    );
    await harness.memory.set(NOTES, "first", "again", unconfinedCaller);
  });

  it("at most 1,024 apps have a memory", async () => {
    const harness = new MemoryHarness();
    await harness.memory[Symbol.asyncDispose]();
    harness.addApps(1_024);
    await harness.restart();
    await expect(harness.memory.set(NOTES, "k", "v", unconfinedCaller)).rejects.toEqual(
      code("limits_exceeded"),
    );
    await harness.memory.wipe("org.example.app7", unconfinedCaller);
    await harness.memory.set(NOTES, "k", "v", unconfinedCaller);
  });

  it("at most 256 calls of one app may be pending", async () => {
    const { memory } = new MemoryHarness();
    const calls = Array.from({ length: 257 }, () => memory.list(NOTES, unconfinedCaller));
    await expect(calls.pop()).rejects.toEqual(code("busy"));
    await Promise.all(calls);
    await memory.list(NOTES, unconfinedCaller);
  });
});

describe("the ledger of memory calls", () => {
  it("records each set and each wipe before its effect, without keys and values", async () => {
    const { memory, ledger } = new MemoryHarness();
    await memory.set(NOTES, "pin of the door", "1234", sandboxedCaller(NOTES));
    await memory.set(NOTES, "pin of the door", "1234", unconfinedCaller);
    await memory.get(NOTES, "pin of the door", unconfinedCaller);
    await memory.list(NOTES, unconfinedCaller);
    await memory.wipe(NOTES, unconfinedCaller);
    await memory.set(NOTES, "pin of the door", "1234", unconfinedCaller);
    expect(ledger.entries.map(({ name, fields }) => [name, fields])).toEqual([
      [
        "memory.set",
        {
          app: NOTES,
          caller: { connection: ":1.8", pid: 4712, app: NOTES, app_kind: "flatpak" },
          bytes: 4,
        },
      ],
      ["memory.set", expect.objectContaining({ app: NOTES, bytes: 4 })],
      [
        "memory.wipe",
        {
          app: NOTES,
          caller: { connection: ":1.7", pid: 4711, app: null, app_kind: null },
          keys: 1,
          bytes: 19,
        },
      ],
      ["memory.set", expect.objectContaining({ app: NOTES })],
    ]);
    expect(JSON.stringify(ledger.entries)).not.toMatch(/1234|door/);
    const [one, two, , afterWipe] = ledger.entries;
    expect(one?.sealed).toEqual({
      key_hmac: expect.stringMatching(/^[0-9a-f]{64}$/),
      value_hmac: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(two?.sealed).toEqual(one?.sealed);
    // The entry after the wipe has a digest with a new key, so that it cannot be compared with a digest from before the
    // wipe.
    expect(afterWipe?.sealed).not.toEqual(one?.sealed);
  });

  it("prevents a set or wipe whose entry it refuses", async () => {
    const harness = new MemoryHarness();
    await harness.memory.set(NOTES, "k", "before", unconfinedCaller);
    harness.ledger.mode = "down";
    for (const call of [
      harness.memory.set(NOTES, "k", "after", unconfinedCaller),
      harness.memory.set(OTHER, "k", "after", unconfinedCaller),
      harness.memory.wipe(NOTES, unconfinedCaller),
    ])
      await expect(call).rejects.toEqual(code("ledger_unavailable"));
    await harness.restart();
    expect(await harness.memory.get(NOTES, "k", unconfinedCaller)).toBe("before");
    expect((await harness.memory.list(OTHER, unconfinedCaller)).size).toBe(0);
    expect(harness.keyFiles()).toEqual([NOTES]);
  });

  it("has the entry before the value is written", async () => {
    const harness = new MemoryHarness();
    const seen: number[] = [];
    harness.ledger.onCommit = () => void seen.push(harness.countItems());
    await harness.memory.set(NOTES, "k", "v", unconfinedCaller);
    await harness.memory.set(NOTES, "l", "v", unconfinedCaller);
    await harness.memory.wipe(NOTES, unconfinedCaller);
    expect([...seen, harness.countItems()]).toEqual([0, 1, 2, 0]);
  });
});

it("the memory completes pending calls when it is closed, and rejects later calls with shutting_down", async () => {
  const { memory } = new MemoryHarness();
  const asked = memory.set(NOTES, "k", "v", unconfinedCaller);
  await memory[Symbol.asyncDispose]();
  await asked;
  await expect(memory.get(NOTES, "k", unconfinedCaller)).rejects.toEqual(code("shutting_down"));
});
