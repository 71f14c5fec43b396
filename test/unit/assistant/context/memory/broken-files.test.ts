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
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import {
  createMemoryDirectory,
  MemoryHarness,
  NOTES,
  OTHER,
  unconfinedCaller,
} from "../../../../support/memory-harness.ts";

async function describeRefusal(call: Promise<unknown>, world: MemoryHarness): Promise<string> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AssistantError)) throw new Error("it was not refused");
  expect(error.message).not.toContain(world.dir);
  expect(error.message).not.toMatch(/\/tmp|SqliteError|ENOENT/);
  return `${error.code}: ${error.message}`;
}

async function createFilledHarness(): Promise<MemoryHarness> {
  const world = new MemoryHarness();
  await world.memory.set(NOTES, "k", "blue", unconfinedCaller);
  await world.memory.set(OTHER, "k", "red", unconfinedCaller);
  return world;
}

describe("a database that is damaged", () => {
  it("is reported by every call, stays unchanged, and is read again after it was restored", async () => {
    const world = await createFilledHarness();
    await world.memory[Symbol.asyncDispose]();
    const file = join(world.dir, "memory.db");
    const whole = readFileSync(file);
    const damaged = Buffer.from(whole).fill("garbage ", 0, 4_096);
    writeFileSync(file, damaged);
    await world.restart();
    for (const call of [
      world.memory.get(NOTES, "k", unconfinedCaller),
      world.memory.set(NOTES, "k", "v", unconfinedCaller),
      world.memory.list(NOTES, unconfinedCaller),
      world.memory.wipe(NOTES, unconfinedCaller),
    ])
      expect(await describeRefusal(call, world)).toMatch(/^storage_failed: the memory is damaged/);
    expect(readFileSync(file).equals(damaged)).toBe(true);
    expect(world.ledger.entries.length).toBe(2);
    writeFileSync(file, whole);
    expect(await world.memory.get(NOTES, "k", unconfinedCaller)).toBe("blue");
  });

  it("in one value: reading this value and listing its app fail, other values are readable", async () => {
    const world = await createFilledHarness();
    await world.memory.set(NOTES, "l", "green", unconfinedCaller);
    world.sql((db) => db.exec("UPDATE item SET sealed = zeroblob(length(sealed)) WHERE id = 1"));
    expect(await describeRefusal(world.memory.get(NOTES, "k", unconfinedCaller), world)).toMatch(
      /damaged/,
    );
    expect(await describeRefusal(world.memory.list(NOTES, unconfinedCaller), world)).toMatch(
      /damaged/,
    );
    expect(await world.memory.get(NOTES, "l", unconfinedCaller)).toBe("green");
    expect(await world.memory.get(OTHER, "k", unconfinedCaller)).toBe("red");
  });

  it("by moving values to another key or another app: they cannot be decrypted there", async () => {
    const world = await createFilledHarness();
    await world.memory.set(NOTES, "l", "green", unconfinedCaller);
    world.sql((db) => {
      const sealed = db.prepare<[number], Buffer>("SELECT sealed FROM item WHERE id = ?").pluck();
      const [one, three] = [sealed.get(1), sealed.get(3)];
      const put = db.prepare("UPDATE item SET sealed = ? WHERE id = ?");
      put.run(three, 1);
      put.run(one, 2);
    });
    expect(await describeRefusal(world.memory.get(NOTES, "k", unconfinedCaller), world)).toMatch(
      /damaged/,
    );
    expect(await describeRefusal(world.memory.get(OTHER, "k", unconfinedCaller), world)).toMatch(
      /damaged/,
    );
  });
});

describe("a key that is missing", () => {
  it("deletes no values: the key can be restored, or the app wiped", async () => {
    const world = await createFilledHarness();
    const file = join(world.dir, "memory.keys", NOTES);
    renameSync(file, `${world.dir}/aside`);
    await world.restart();
    for (const call of [
      world.memory.get(NOTES, "k", unconfinedCaller),
      world.memory.set(NOTES, "k", "v", unconfinedCaller),
      world.memory.list(NOTES, unconfinedCaller),
    ])
      expect(await describeRefusal(call, world)).toMatch(/its key is missing or damaged/);
    expect(await world.memory.get(OTHER, "k", unconfinedCaller)).toBe("red");
    renameSync(`${world.dir}/aside`, file);
    expect(await world.memory.get(NOTES, "k", unconfinedCaller)).toBe("blue");
    await world.restart();
    truncateSync(file, 5);
    expect(await describeRefusal(world.memory.get(NOTES, "k", unconfinedCaller), world)).toMatch(
      /its key/,
    );
    await world.memory.wipe(NOTES, unconfinedCaller);
    expect(world.keyFiles()).toEqual([OTHER]);
    await world.memory.set(NOTES, "k", "new", unconfinedCaller);
    expect(await world.memory.get(NOTES, "k", unconfinedCaller)).toBe("new");
  });
});

it("a wipe rejects if the key cannot be deleted, and is completed as soon as possible", async () => {
  const world = await createFilledHarness();
  const file = join(world.dir, "memory.keys", NOTES);
  rmSync(file);
  mkdirSync(file);
  expect(await describeRefusal(world.memory.wipe(NOTES, unconfinedCaller), world)).toMatch(
    /^storage_failed:/,
  );
  await expect(world.memory.get(NOTES, "k", unconfinedCaller)).rejects.toMatchObject({
    code: "not_found",
  });
  rmdirSync(file);
  writeFileSync(file, "0123456789abcdef0123456789abcdef");
  await world.clock.advance(30_000);
  expect(world.keyFiles()).toEqual([OTHER]);
});

it("a directory that cannot be used is reported, and used as soon as possible", async () => {
  const dir = createMemoryDirectory();
  rmSync(dir, { recursive: true });
  writeFileSync(dir, "a file in its place");
  const world = new MemoryHarness(dir);
  const refusal = await describeRefusal(world.memory.set(NOTES, "k", "v", unconfinedCaller), world);
  expect(refusal).toMatch(/^storage_failed: the memory's files cannot be used/);
  expect(world.ledger.entries).toEqual([]);
  rmSync(dir);
  await world.memory.set(NOTES, "k", "v", unconfinedCaller);
  expect(await world.memory.get(NOTES, "k", unconfinedCaller)).toBe("v");
});

it("a database of a newer version is not changed", async () => {
  const world = await createFilledHarness();
  await world.memory[Symbol.asyncDispose]();
  world.sql((db) => db.pragma("user_version = 99"));
  await world.restart();
  expect(await describeRefusal(world.memory.get(NOTES, "k", unconfinedCaller), world)).toMatch(
    /written by a newer version/,
  );
});
