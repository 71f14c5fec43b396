import { describe, expect, it } from "vitest";
import { MemoryWorld, NOTES, OTHER, person, sandboxed } from "../../../../support/memory-world.ts";
import { UNBOUNDED_AFTER_MS } from "../../../../support/patience.ts";

const code = (wanted: string) => expect.objectContaining({ code: wanted });

describe("what is kept", () => {
  it("is there again, also after a restart, and is overwritten by the same key", async () => {
    const world = new MemoryWorld();
    await world.memory.set(NOTES, "colour", "blue", person);
    await world.memory.set(NOTES, "süß 🍬", "", person);
    await world.memory.set(NOTES, "colour", "grün\0🌱", person);
    await world.restart();
    expect(await world.memory.get(NOTES, "colour", person)).toBe("grün\0🌱");
    expect([...(await world.memory.list(NOTES, person))]).toEqual([
      ["colour", "grün\0🌱"],
      ["süß 🍬", ""],
    ]);
  });

  it("is not_found under another key, and empty for an app that keeps nothing", async () => {
    const { memory } = new MemoryWorld();
    await expect(memory.get(NOTES, "colour", person)).rejects.toEqual(code("not_found"));
    await memory.set(NOTES, "colour", "blue", person);
    await expect(memory.get(NOTES, "Colour", person)).rejects.toEqual(code("not_found"));
    expect((await memory.list(OTHER, person)).size).toBe(0);
  });

  it("is each app's own, and stays when another app is wiped", async () => {
    const { memory } = new MemoryWorld();
    await memory.set(NOTES, "colour", "blue", person);
    await memory.set(OTHER, "colour", "red", person);
    await memory.wipe(NOTES, person);
    await expect(memory.get(NOTES, "colour", person)).rejects.toEqual(code("not_found"));
    expect(await memory.get(OTHER, "colour", person)).toBe("red");
    await memory.set(NOTES, "colour", "green", person);
    expect(await memory.get(NOTES, "colour", person)).toBe("green");
  });

  it("is read as it was written before, without waiting for answers in between", async () => {
    const { memory } = new MemoryWorld();
    const first = memory.set(NOTES, "n", "1", person);
    const read = memory.get(NOTES, "n", person);
    const wiped = memory.wipe(NOTES, person);
    const gone = memory.list(NOTES, person);
    const second = memory.set(NOTES, "n", "2", person);
    expect(await read).toBe("1");
    expect((await gone).size).toBe(0);
    await Promise.all([first, wiped, second]);
    expect(await memory.get(NOTES, "n", person)).toBe("2");
  });
});

describe("who may", () => {
  it.each(["flatpak", "snap"] as const)("an app in a %s: itself only", async (kind) => {
    const { memory, ledger } = new MemoryWorld();
    const app = sandboxed(NOTES, kind);
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
  });

  it("a program that only its unit names: any app, as its user", async () => {
    const { memory } = new MemoryWorld();
    await memory.set(OTHER, "k", "v", sandboxed(NOTES, "unit"));
    expect(await memory.get(OTHER, "k", person)).toBe("v");
  });

  it("a snap whose name has no dot: itself", async () => {
    const { memory } = new MemoryWorld();
    await memory.set("firefox", "k", "v", sandboxed("firefox", "snap"));
    await expect(memory.get("firefox", "k", person)).rejects.toEqual(code("invalid_request"));
  });
});

describe("bounds", () => {
  it.each([
    ["", "no id"],
    ["notes", "no dot"],
    ["../../etc.passwd", "a path"],
    [".org.example", "a dot at the start"],
    ["org..example", "two dots"],
    ["org.exämple", "letters of no file name"],
    [`org.${"x".repeat(252)}`, "256 bytes"],
  ])("the app %j is refused: %s", async (app) => {
    const { memory, ledger } = new MemoryWorld();
    await expect(memory.set(app, "k", "v", person)).rejects.toMatchObject({
      code: "invalid_request",
      param: "app",
    });
    expect(ledger.entries).toEqual([]);
  });

  it("an app's id may have 255 bytes, a key 256, a value 64 KiB, and not one more", async () => {
    const { memory, ledger } = new MemoryWorld();
    const app = `org.${"x".repeat(251)}`;
    const key = "ü".repeat(128);
    const value = "€".repeat(21_845).concat("x");
    await memory.set(app, key, value, person);
    expect(await memory.get(app, key, person)).toBe(value);
    for (const [badKey, badValue, param] of [
      [`${key}x`, "", "key"],
      ["", "", "key"],
      ["\ud800", "", "key"],
      ["k", `${value}x`, "value"],
      ["k", "a\udc00", "value"],
    ] as const)
      await expect(memory.set(app, badKey, badValue, person)).rejects.toMatchObject({
        code: "invalid_request",
        param,
      });
    expect(ledger.entries.length).toBe(1);
  });

  it("16 MiB an app, keys counted; smaller ones are taken when it is full", async () => {
    const { memory, ledger } = new MemoryWorld();
    const value = "x".repeat(65_526);
    for (let number = 0; number < 256; number += 1)
      await memory.set(NOTES, `key-${String(number).padStart(6, "0")}`, value, person);
    const entries = ledger.entries.length;
    await expect(memory.set(NOTES, "k", "", person)).rejects.toEqual(code("limits_exceeded"));
    await expect(memory.set(NOTES, "key-000000", `${value}x`, person)).rejects.toEqual(
      code("limits_exceeded"),
    );
    expect(ledger.entries.length).toBe(entries);
    await memory.set(OTHER, "k", "v", person);
    await memory.set(NOTES, "key-000000", value.slice(1), person);
    await memory.set(NOTES, "k", "", person);
    const startedAt = performance.now();
    expect((await memory.list(NOTES, person)).size).toBe(257);
    const listedAt = performance.now();
    await memory.wipe(NOTES, person);
    expect(listedAt - startedAt).toBeLessThan(UNBOUNDED_AFTER_MS);
    expect(performance.now() - listedAt).toBeLessThan(UNBOUNDED_AFTER_MS);
  });

  it("10,000 keys an app; one that is there may still be overwritten", async () => {
    const world = new MemoryWorld();
    await world.memory.set(NOTES, "first", "", person);
    await world.memory[Symbol.asyncDispose]();
    world.setKept(NOTES, 10_000);
    await world.restart();
    await expect(world.memory.set(NOTES, "another", "", person)).rejects.toEqual(
      code("limits_exceeded"),
    );
    await world.memory.set(NOTES, "first", "again", person);
  });

  it("1,024 apps", async () => {
    const world = new MemoryWorld();
    await world.memory[Symbol.asyncDispose]();
    world.addApps(1_024);
    await world.restart();
    await expect(world.memory.set(NOTES, "k", "v", person)).rejects.toEqual(
      code("limits_exceeded"),
    );
    await world.memory.wipe("org.example.app7", person);
    await world.memory.set(NOTES, "k", "v", person);
  });

  it("256 calls of one app wait, and no more", async () => {
    const { memory } = new MemoryWorld();
    const calls = Array.from({ length: 257 }, () => memory.list(NOTES, person));
    await expect(calls.pop()).rejects.toEqual(code("busy"));
    await Promise.all(calls);
    await memory.list(NOTES, person);
  });
});

describe("the ledger", () => {
  it("has each set and each wipe before it happens, and nothing of what is kept", async () => {
    const { memory, ledger } = new MemoryWorld();
    await memory.set(NOTES, "pin of the door", "1234", sandboxed(NOTES));
    await memory.set(NOTES, "pin of the door", "1234", person);
    await memory.get(NOTES, "pin of the door", person);
    await memory.list(NOTES, person);
    await memory.wipe(NOTES, person);
    await memory.set(NOTES, "pin of the door", "1234", person);
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
    // Under a new key: what was sealed before the wipe can be compared with nothing any more.
    expect(afterWipe?.sealed).not.toEqual(one?.sealed);
  });

  it("that refuses keeps set and wipe from happening", async () => {
    const world = new MemoryWorld();
    await world.memory.set(NOTES, "k", "before", person);
    world.ledger.refuses = true;
    for (const call of [
      world.memory.set(NOTES, "k", "after", person),
      world.memory.set(OTHER, "k", "after", person),
      world.memory.wipe(NOTES, person),
    ])
      await expect(call).rejects.toEqual(code("ledger_unavailable"));
    await world.restart();
    expect(await world.memory.get(NOTES, "k", person)).toBe("before");
    expect((await world.memory.list(OTHER, person)).size).toBe(0);
    expect(world.keyFiles()).toEqual([NOTES]);
  });

  it("has the entry at a time when nothing has been written yet", async () => {
    const world = new MemoryWorld();
    const seen: number[] = [];
    world.ledger.onAppend = () => void seen.push(world.rows());
    await world.memory.set(NOTES, "k", "v", person);
    await world.memory.set(NOTES, "l", "v", person);
    await world.memory.wipe(NOTES, person);
    expect([...seen, world.rows()]).toEqual([0, 1, 2, 0]);
  });
});

it("refuses with shutting_down once it ends, after it has answered what was asked before", async () => {
  const { memory } = new MemoryWorld();
  const asked = memory.set(NOTES, "k", "v", person);
  await memory[Symbol.asyncDispose]();
  await asked;
  await expect(memory.get(NOTES, "k", person)).rejects.toEqual(code("shutting_down"));
});
