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
  MemoryHarness,
  NOTES,
  OTHER,
  unconfinedCaller,
} from "../../../../support/memory-harness.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

async function describeRefusal(call: Promise<unknown>, harness: MemoryHarness): Promise<string> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AssistantError)) throw new Error("it was not refused");
  expect(error.message).not.toContain(harness.dir);
  expect(error.message).not.toMatch(/\/tmp|SqliteError|ENOENT/);
  return `${error.code}: ${error.message}`;
}

async function createFilledHarness(): Promise<MemoryHarness> {
  const harness = new MemoryHarness();
  await harness.memory.set(NOTES, "k", "blue", unconfinedCaller);
  await harness.memory.set(OTHER, "k", "red", unconfinedCaller);
  return harness;
}

describe("a damaged memory database", () => {
  it("is reported by every call, stays unchanged, and is read again after it was restored", async () => {
    const harness = await createFilledHarness();
    await harness.memory[Symbol.asyncDispose]();
    const file = join(harness.dir, "memory.db");
    const whole = readFileSync(file);
    const damaged = Buffer.from(whole).fill("garbage ", 0, 4_096);
    writeFileSync(file, damaged);
    await harness.restart();
    for (const call of [
      harness.memory.get(NOTES, "k", unconfinedCaller),
      harness.memory.set(NOTES, "k", "v", unconfinedCaller),
      harness.memory.list(NOTES, unconfinedCaller),
      harness.memory.wipe(NOTES, unconfinedCaller),
    ])
      expect(await describeRefusal(call, harness)).toMatch(
        /^storage_failed: the memory is damaged/,
      );
    expect(readFileSync(file).equals(damaged)).toBe(true);
    expect(harness.ledger.entries.length).toBe(2);
    writeFileSync(file, whole);
    expect(await harness.memory.get(NOTES, "k", unconfinedCaller)).toBe("blue");
  });

  it("with one damaged value returns the other values; only a call that reads this value, or lists its app, fails", async () => {
    const harness = await createFilledHarness();
    await harness.memory.set(NOTES, "l", "green", unconfinedCaller);
    harness.sql((db) => db.exec("UPDATE item SET sealed = zeroblob(length(sealed)) WHERE id = 1"));
    expect(
      await describeRefusal(harness.memory.get(NOTES, "k", unconfinedCaller), harness),
    ).toMatch(/damaged/);
    expect(await describeRefusal(harness.memory.list(NOTES, unconfinedCaller), harness)).toMatch(
      /damaged/,
    );
    expect(await harness.memory.get(NOTES, "l", unconfinedCaller)).toBe("green");
    expect(await harness.memory.get(OTHER, "k", unconfinedCaller)).toBe("red");
  });

  it("whose values were moved to another key or another app does not decrypt these values", async () => {
    const harness = await createFilledHarness();
    await harness.memory.set(NOTES, "l", "green", unconfinedCaller);
    harness.sql((db) => {
      const sealed = db.prepare<[number], Buffer>("SELECT sealed FROM item WHERE id = ?").pluck();
      const [one, three] = [sealed.get(1), sealed.get(3)];
      const put = db.prepare("UPDATE item SET sealed = ? WHERE id = ?");
      put.run(three, 1);
      put.run(one, 2);
    });
    expect(
      await describeRefusal(harness.memory.get(NOTES, "k", unconfinedCaller), harness),
    ).toMatch(/damaged/);
    expect(
      await describeRefusal(harness.memory.get(OTHER, "k", unconfinedCaller), harness),
    ).toMatch(/damaged/);
  });
});

describe("a missing encryption key", () => {
  it("deletes no values: the user can restore the key, or wipe the app's memory", async () => {
    const harness = await createFilledHarness();
    const file = join(harness.dir, "memory.keys", NOTES);
    renameSync(file, `${harness.dir}/aside`);
    await harness.restart();
    for (const call of [
      harness.memory.get(NOTES, "k", unconfinedCaller),
      harness.memory.set(NOTES, "k", "v", unconfinedCaller),
      harness.memory.list(NOTES, unconfinedCaller),
    ])
      expect(await describeRefusal(call, harness)).toMatch(/its key is missing or damaged/);
    expect(await harness.memory.get(OTHER, "k", unconfinedCaller)).toBe("red");
    renameSync(`${harness.dir}/aside`, file);
    expect(await harness.memory.get(NOTES, "k", unconfinedCaller)).toBe("blue");
    await harness.restart();
    truncateSync(file, 5);
    expect(
      await describeRefusal(harness.memory.get(NOTES, "k", unconfinedCaller), harness),
    ).toMatch(/its key/);
    await harness.memory.wipe(NOTES, unconfinedCaller);
    expect(harness.keyFiles()).toEqual([OTHER]);
    await harness.memory.set(NOTES, "k", "new", unconfinedCaller);
    expect(await harness.memory.get(NOTES, "k", unconfinedCaller)).toBe("new");
  });
});

it("a wipe rejects if the key cannot be deleted, and is completed as soon as that is possible", async () => {
  const harness = await createFilledHarness();
  const file = join(harness.dir, "memory.keys", NOTES);
  rmSync(file);
  mkdirSync(file);
  expect(await describeRefusal(harness.memory.wipe(NOTES, unconfinedCaller), harness)).toMatch(
    /^storage_failed:/,
  );
  await expect(harness.memory.get(NOTES, "k", unconfinedCaller)).rejects.toMatchObject({
    code: "not_found",
  });
  rmdirSync(file);
  writeFileSync(file, "0123456789abcdef0123456789abcdef");
  await harness.clock.advance(30_000);
  expect(harness.keyFiles()).toEqual([OTHER]);
});

it("a memory directory that cannot be used is reported, and is used again once it is accessible", async () => {
  const dir = temporaryFolder("memory");
  rmSync(dir, { recursive: true });
  writeFileSync(dir, "a file in its place");
  const harness = new MemoryHarness(dir);
  const refusal = await describeRefusal(
    harness.memory.set(NOTES, "k", "v", unconfinedCaller),
    harness,
  );
  expect(refusal).toMatch(/^storage_failed: the memory's files cannot be used/);
  expect(harness.ledger.entries).toEqual([]);
  rmSync(dir);
  await harness.memory.set(NOTES, "k", "v", unconfinedCaller);
  expect(await harness.memory.get(NOTES, "k", unconfinedCaller)).toBe("v");
});

it("a memory database of a newer version is not changed", async () => {
  const harness = await createFilledHarness();
  await harness.memory[Symbol.asyncDispose]();
  harness.sql((db) => db.pragma("user_version = 99"));
  await harness.restart();
  expect(await describeRefusal(harness.memory.get(NOTES, "k", unconfinedCaller), harness)).toMatch(
    /written by a newer version/,
  );
});
