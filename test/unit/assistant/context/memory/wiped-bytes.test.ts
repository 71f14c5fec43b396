import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  findFilesWith,
  MemoryHarness,
  NOTES,
  OTHER,
  openOutsideReader,
  readAppSecret,
  readSealedValues,
  unconfinedCaller,
} from "../../../../support/memory-harness.ts";

/** Long and short values of distinct bytes, for normal pages and overflow pages of the database. */
const CANARY = "canary-7f3a91c4e2";
const items = [
  ["short", CANARY],
  [`key of ${CANARY}`, "text"],
  ["long", `${"z".repeat(30_000)}${CANARY}${"z".repeat(30_000)}`],
] as const;

async function createFilledHarness(): Promise<{
  world: MemoryHarness;
  sealed: Buffer[];
  secret: Buffer;
}> {
  const world = new MemoryHarness();
  await world.memory.set(OTHER, "k", "stays", unconfinedCaller);
  for (const [key, value] of items) await world.memory.set(NOTES, key, value, unconfinedCaller);
  return {
    world,
    sealed: readSealedValues(world.dir, NOTES),
    secret: readAppSecret(world.dir, NOTES),
  };
}

/** Pieces of the encrypted texts, because a page of the database may contain only a part. */
function splitSealed(sealed: readonly Buffer[]): Buffer[] {
  return sealed.flatMap((bytes) => [0, 0.3, 0.6].map((part) => cut(bytes, part)));
}

function cut(bytes: Buffer, part: number): Buffer {
  const start = Math.floor(bytes.length * part);
  return bytes.subarray(start, start + 24);
}

function findResidue(world: MemoryHarness, searched: readonly Buffer[]): string[] {
  return searched.flatMap((bytes) => findFilesWith(world.dir, bytes));
}

describe("a wipe", () => {
  it("leaves no byte of values, keys, or the encryption key", async () => {
    const { world, sealed, secret } = await createFilledHarness();
    // Before the wipe the search must find the bytes, or it would prove nothing.
    expect(findResidue(world, splitSealed(sealed)).length).toBeGreaterThanOrEqual(
      splitSealed(sealed).length,
    );
    expect(findFilesWith(world.dir, secret)).toEqual([join("memory.keys", NOTES)]);
    await world.memory.wipe(NOTES, unconfinedCaller);
    expect(findFilesWith(world.dir, CANARY)).toEqual([]);
    expect(findResidue(world, [secret, ...splitSealed(sealed)])).toEqual([]);
    expect(statSync(join(world.dir, "memory.db-wal")).size).toBe(0);
    expect(world.countItems()).toBe(1);
    expect(await world.memory.get(OTHER, "k", unconfinedCaller)).toBe("stays");
  });

  it("with an open reader leaves only encrypted bytes, and none once the reader has ended", async () => {
    const { world, sealed, secret } = await createFilledHarness();
    const reader = openOutsideReader(world.dir);
    await world.memory.wipe(NOTES, unconfinedCaller);
    expect(findFilesWith(world.dir, CANARY)).toEqual([]);
    expect(findFilesWith(world.dir, secret)).toEqual([]);
    expect(world.countItems()).toBe(1);
    // SQLite keeps the rows that the reader sees, which cannot be decrypted any more.
    expect(reader.prepare("SELECT count(*) FROM item").pluck().get()).toBe(items.length + 1);
    expect(findResidue(world, splitSealed(sealed))).not.toEqual([]);
    await world.clock.advance(60_000);
    expect(findResidue(world, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await world.clock.advance(30_000);
    expect(findResidue(world, splitSealed(sealed))).toEqual([]);
  });

  it("with a reader that is open until the daemon has ended is completed by the next start", async () => {
    const { world, sealed } = await createFilledHarness();
    const reader = openOutsideReader(world.dir);
    await world.memory.wipe(NOTES, unconfinedCaller);
    await world.memory[Symbol.asyncDispose]();
    expect(findResidue(world, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await world.restart();
    expect(findResidue(world, splitSealed(sealed))).toEqual([]);
  });

  it("that was interrupted between the rows and the key is completed by the next start", async () => {
    const { world, sealed, secret } = await createFilledHarness();
    await world.memory[Symbol.asyncDispose]();
    world.sql((db) => {
      db.pragma("secure_delete = ON");
      db.exec("DELETE FROM item WHERE app = (SELECT id FROM app WHERE name = 'org.example.Notes')");
      db.exec("DELETE FROM app WHERE name = 'org.example.Notes'");
    });
    await world.restart();
    expect(findResidue(world, [secret, ...splitSealed(sealed)])).toEqual([]);
    expect(world.keyFiles()).toEqual([OTHER]);
  });

  it("rejects and deletes nothing if another program writes for too long", async () => {
    const { world, secret } = await createFilledHarness();
    await world.whileLocked(async () => {
      const wiped = world.memory.wipe(NOTES, unconfinedCaller);
      wiped.catch(() => {});
      await world.clock.advance(6_000);
      await expect(wiped).rejects.toMatchObject({ code: "busy" });
    });
    expect(findFilesWith(world.dir, secret)).toHaveLength(1);
    expect(await world.memory.get(NOTES, "short", unconfinedCaller)).toBe(CANARY);
    await world.whileLocked(async (letGo) => {
      const wiped = world.memory.wipe(NOTES, unconfinedCaller);
      await world.clock.advance(1_000);
      letGo();
      await world.clock.advance(1_000);
      await wiped;
    });
    expect(findFilesWith(world.dir, secret)).toEqual([]);
  });
});

describe("an overwritten value", () => {
  it("is removed from all files after a second", async () => {
    const { world, sealed } = await createFilledHarness();
    for (const [key] of items) await world.memory.set(NOTES, key, "new", unconfinedCaller);
    await world.clock.advance(1_000);
    expect(findResidue(world, splitSealed(sealed))).toEqual([]);
    expect((await world.memory.list(NOTES, unconfinedCaller)).get("long")).toBe("new");
  });

  it("is removed when a reader of that time has ended", async () => {
    const { world, sealed } = await createFilledHarness();
    const reader = openOutsideReader(world.dir);
    for (const [key] of items) await world.memory.set(NOTES, key, "new", unconfinedCaller);
    await world.clock.advance(60_000);
    expect(findResidue(world, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await world.clock.advance(30_000);
    expect(findResidue(world, splitSealed(sealed))).toEqual([]);
  });

  it("is removed when the daemon has ended", async () => {
    const { world, sealed } = await createFilledHarness();
    for (const [key] of items) await world.memory.set(NOTES, key, "new", unconfinedCaller);
    await world.memory[Symbol.asyncDispose]();
    expect(findResidue(world, splitSealed(sealed))).toEqual([]);
    expect(existsSync(join(world.dir, "memory.db-wal"))).toBe(false);
  });
});

it("other users cannot open the files", async () => {
  const { world } = await createFilledHarness();
  for (const name of ["memory.db", "memory.db-wal", join("memory.keys", NOTES)])
    expect([name, statSync(join(world.dir, name)).mode & 0o777]).toEqual([name, 0o600]);
  expect(statSync(join(world.dir, "memory.keys")).mode & 0o777).toBe(0o700);
});

it("an unfinished key file of a killed daemon is deleted", async () => {
  const { world } = await createFilledHarness();
  writeFileSync(join(world.dir, "memory.keys", ".new"), "half of a key");
  await world.restart();
  expect(world.keyFiles()).toEqual([NOTES, OTHER]);
});
