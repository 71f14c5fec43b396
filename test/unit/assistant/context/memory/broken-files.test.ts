import {
  mkdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { AssistantError } from "../../../../../src/assistant/errors.ts";
import {
  MemoryWorld,
  memoryDirectory,
  NOTES,
  OTHER,
  person,
} from "../../../../support/memory-world.ts";

async function refusalOf(call: Promise<unknown>, world: MemoryWorld): Promise<string> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AssistantError)) throw new Error("it was not refused");
  expect(error.message).not.toContain(world.dir);
  expect(error.message).not.toMatch(/\/tmp|SqliteError|ENOENT/);
  return `${error.code}: ${error.message}`;
}

async function filled(): Promise<MemoryWorld> {
  const world = new MemoryWorld();
  await world.memory.set(NOTES, "k", "blue", person);
  await world.memory.set(OTHER, "k", "red", person);
  return world;
}

describe("a database that is damaged", () => {
  it("is said to be that by every call, stays as it is, and is read again when it was brought back", async () => {
    const world = await filled();
    await world.memory[Symbol.asyncDispose]();
    const file = join(world.dir, "memory.db");
    const whole = readFileSync(file);
    const damaged = Buffer.from(whole).fill("garbage ", 0, 4_096);
    writeFileSync(file, damaged);
    await world.restart();
    for (const call of [
      world.memory.get(NOTES, "k", person),
      world.memory.set(NOTES, "k", "v", person),
      world.memory.list(NOTES, person),
      world.memory.wipe(NOTES, person),
    ])
      expect(await refusalOf(call, world)).toMatch(/^storage_failed: the memory is damaged/);
    expect(readFileSync(file).equals(damaged)).toBe(true);
    expect(world.ledger.entries.length).toBe(2);
    writeFileSync(file, whole);
    expect(await world.memory.get(NOTES, "k", person)).toBe("blue");
  });

  it("in one value: that app's list and this value are refused, the rest is read", async () => {
    const world = await filled();
    await world.memory.set(NOTES, "l", "green", person);
    world.sql((db) => db.exec("UPDATE item SET sealed = zeroblob(length(sealed)) WHERE id = 1"));
    expect(await refusalOf(world.memory.get(NOTES, "k", person), world)).toMatch(/damaged/);
    expect(await refusalOf(world.memory.list(NOTES, person), world)).toMatch(/damaged/);
    expect(await world.memory.get(NOTES, "l", person)).toBe("green");
    expect(await world.memory.get(OTHER, "k", person)).toBe("red");
  });

  it("values that were moved to another key or another app do not open there", async () => {
    const world = await filled();
    await world.memory.set(NOTES, "l", "green", person);
    world.sql((db) => {
      const sealed = db.prepare<[number], Buffer>("SELECT sealed FROM item WHERE id = ?").pluck();
      const [one, three] = [sealed.get(1), sealed.get(3)];
      const put = db.prepare("UPDATE item SET sealed = ? WHERE id = ?");
      put.run(three, 1);
      put.run(one, 2);
    });
    expect(await refusalOf(world.memory.get(NOTES, "k", person), world)).toMatch(/damaged/);
    expect(await refusalOf(world.memory.get(OTHER, "k", person), world)).toMatch(/damaged/);
  });
});

describe("a key that is missing", () => {
  it("loses nothing by itself: it can be brought back, or the app wiped", async () => {
    const world = await filled();
    const file = join(world.dir, "memory.keys", NOTES);
    renameSync(file, `${world.dir}/aside`);
    await world.restart();
    for (const call of [
      world.memory.get(NOTES, "k", person),
      world.memory.set(NOTES, "k", "v", person),
      world.memory.list(NOTES, person),
    ])
      expect(await refusalOf(call, world)).toMatch(/its key is missing or damaged/);
    expect(await world.memory.get(OTHER, "k", person)).toBe("red");
    renameSync(`${world.dir}/aside`, file);
    expect(await world.memory.get(NOTES, "k", person)).toBe("blue");
    await world.restart();
    truncateSync(file, 5);
    expect(await refusalOf(world.memory.get(NOTES, "k", person), world)).toMatch(/its key/);
    await world.memory.wipe(NOTES, person);
    expect(world.keyFiles()).toEqual([OTHER]);
    await world.memory.set(NOTES, "k", "new", person);
    expect(await world.memory.get(NOTES, "k", person)).toBe("new");
  });
});

it("a key that cannot be removed: the wipe is refused, and is finished as soon as it can be", async () => {
  const world = await filled();
  const file = join(world.dir, "memory.keys", NOTES);
  rmSync(file);
  mkdirSync(file);
  expect(await refusalOf(world.memory.wipe(NOTES, person), world)).toMatch(/^storage_failed:/);
  await expect(world.memory.get(NOTES, "k", person)).rejects.toMatchObject({ code: "not_found" });
  rmdirSync(file);
  writeFileSync(file, "0123456789abcdef0123456789abcdef");
  await world.clock.advance(30_000);
  expect(world.keyFiles()).toEqual([OTHER]);
});

it("a directory that cannot be used is said to be that, and is used once it can be", async () => {
  const dir = memoryDirectory();
  rmSync(dir, { recursive: true });
  writeFileSync(dir, "a file in its place");
  const world = new MemoryWorld(dir);
  const refusal = await refusalOf(world.memory.set(NOTES, "k", "v", person), world);
  expect(refusal).toMatch(/^storage_failed: the memory's files cannot be used/);
  expect(world.ledger.entries).toEqual([]);
  rmSync(dir);
  await world.memory.set(NOTES, "k", "v", person);
  expect(await world.memory.get(NOTES, "k", person)).toBe("v");
});

it("a database of a newer version is left alone", async () => {
  const world = await filled();
  await world.memory[Symbol.asyncDispose]();
  world.sql((db) => db.pragma("user_version = 99"));
  await world.restart();
  expect(await refusalOf(world.memory.get(NOTES, "k", person), world)).toMatch(
    /written by a newer version/,
  );
});
