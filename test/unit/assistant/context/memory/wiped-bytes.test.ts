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

/** Long and short values of distinct bytes, which fill normal pages and overflow pages of the database. */
const CANARY = "canary-7f3a91c4e2";
const items = [
  ["short", CANARY],
  [`key of ${CANARY}`, "text"],
  ["long", `${"z".repeat(30_000)}${CANARY}${"z".repeat(30_000)}`],
] as const;

async function createFilledHarness(): Promise<{
  harness: MemoryHarness;
  sealed: Buffer[];
  secret: Buffer;
}> {
  const harness = new MemoryHarness();
  await harness.memory.set(OTHER, "k", "stays", unconfinedCaller);
  for (const [key, value] of items) await harness.memory.set(NOTES, key, value, unconfinedCaller);
  return {
    harness,
    sealed: readSealedValues(harness.dir, NOTES),
    secret: readAppSecret(harness.dir, NOTES),
  };
}

/** Splits the encrypted texts into pieces, because a page of the database may contain only a part of a text. */
function splitSealed(sealed: readonly Buffer[]): Buffer[] {
  return sealed.flatMap((bytes) => [0, 0.3, 0.6].map((part) => cut(bytes, part)));
}

function cut(bytes: Buffer, part: number): Buffer {
  const start = Math.floor(bytes.length * part);
  return bytes.subarray(start, start + 24);
}

function findResidue(harness: MemoryHarness, searched: readonly Buffer[]): string[] {
  return searched.flatMap((bytes) => findFilesWith(harness.dir, bytes));
}

describe("the wipe of an app's memory", () => {
  it("leaves no byte of values, keys, or the encryption key", async () => {
    const { harness, sealed, secret } = await createFilledHarness();
    // Without bytes that can be found before the wipe, the search would prove nothing.
    expect(findResidue(harness, splitSealed(sealed)).length).toBeGreaterThanOrEqual(
      splitSealed(sealed).length,
    );
    expect(findFilesWith(harness.dir, secret)).toEqual([join("memory.keys", NOTES)]);
    await harness.memory.wipe(NOTES, unconfinedCaller);
    expect(findFilesWith(harness.dir, CANARY)).toEqual([]);
    expect(findResidue(harness, [secret, ...splitSealed(sealed)])).toEqual([]);
    expect(statSync(join(harness.dir, "memory.db-wal")).size).toBe(0);
    expect(harness.countItems()).toBe(1);
    expect(await harness.memory.get(OTHER, "k", unconfinedCaller)).toBe("stays");
  });

  it("leaves only encrypted bytes while another program reads the database, and none afterwards", async () => {
    const { harness, sealed, secret } = await createFilledHarness();
    const reader = openOutsideReader(harness.dir);
    await harness.memory.wipe(NOTES, unconfinedCaller);
    expect(findFilesWith(harness.dir, CANARY)).toEqual([]);
    expect(findFilesWith(harness.dir, secret)).toEqual([]);
    expect(harness.countItems()).toBe(1);
    // SQLite keeps the wiped rows for the other program's transaction, but the rows can no longer be decrypted.
    expect(reader.prepare("SELECT count(*) FROM item").pluck().get()).toBe(items.length + 1);
    expect(findResidue(harness, splitSealed(sealed))).not.toEqual([]);
    await harness.clock.advance(60_000);
    expect(findResidue(harness, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await harness.clock.advance(30_000);
    expect(findResidue(harness, splitSealed(sealed))).toEqual([]);
  });

  it("is completed by the next start if another program reads the database until the daemon has ended", async () => {
    const { harness, sealed } = await createFilledHarness();
    const reader = openOutsideReader(harness.dir);
    await harness.memory.wipe(NOTES, unconfinedCaller);
    await harness.memory[Symbol.asyncDispose]();
    expect(findResidue(harness, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await harness.restart();
    expect(findResidue(harness, splitSealed(sealed))).toEqual([]);
  });

  it("is completed by the next start if it was interrupted after the deletion of the rows and before that of the key", async () => {
    const { harness, sealed, secret } = await createFilledHarness();
    await harness.memory[Symbol.asyncDispose]();
    harness.sql((db) => {
      db.pragma("secure_delete = ON");
      db.exec("DELETE FROM item WHERE app = (SELECT id FROM app WHERE name = 'org.example.Notes')");
      db.exec("DELETE FROM app WHERE name = 'org.example.Notes'");
    });
    await harness.restart();
    expect(findResidue(harness, [secret, ...splitSealed(sealed)])).toEqual([]);
    expect(harness.keyFiles()).toEqual([OTHER]);
  });

  it("rejects and deletes nothing if another program blocks the database for too long", async () => {
    const { harness, secret } = await createFilledHarness();
    await harness.whileLocked(async () => {
      const wiped = harness.memory.wipe(NOTES, unconfinedCaller);
      wiped.catch(() => {});
      await harness.clock.advance(6_000);
      await expect(wiped).rejects.toMatchObject({ code: "busy" });
    });
    expect(findFilesWith(harness.dir, secret)).toHaveLength(1);
    expect(await harness.memory.get(NOTES, "short", unconfinedCaller)).toBe(CANARY);
    await harness.whileLocked(async (letGo) => {
      const wiped = harness.memory.wipe(NOTES, unconfinedCaller);
      await harness.clock.advance(1_000);
      letGo();
      await harness.clock.advance(1_000);
      await wiped;
    });
    expect(findFilesWith(harness.dir, secret)).toEqual([]);
  });
});

describe("an overwritten value of an app's memory", () => {
  it("is removed from all files after a second", async () => {
    const { harness, sealed } = await createFilledHarness();
    for (const [key] of items) await harness.memory.set(NOTES, key, "new", unconfinedCaller);
    await harness.clock.advance(1_000);
    expect(findResidue(harness, splitSealed(sealed))).toEqual([]);
    expect((await harness.memory.list(NOTES, unconfinedCaller)).get("long")).toBe("new");
  });

  it("is removed once the last transaction that could still read it has ended", async () => {
    const { harness, sealed } = await createFilledHarness();
    const reader = openOutsideReader(harness.dir);
    for (const [key] of items) await harness.memory.set(NOTES, key, "new", unconfinedCaller);
    await harness.clock.advance(60_000);
    expect(findResidue(harness, splitSealed(sealed))).not.toEqual([]);
    reader.exec("COMMIT");
    await harness.clock.advance(30_000);
    expect(findResidue(harness, splitSealed(sealed))).toEqual([]);
  });

  it("is removed when the daemon has ended", async () => {
    const { harness, sealed } = await createFilledHarness();
    for (const [key] of items) await harness.memory.set(NOTES, key, "new", unconfinedCaller);
    await harness.memory[Symbol.asyncDispose]();
    expect(findResidue(harness, splitSealed(sealed))).toEqual([]);
    expect(existsSync(join(harness.dir, "memory.db-wal"))).toBe(false);
  });
});

it("other users cannot open the files of the apps' memory", async () => {
  const { harness } = await createFilledHarness();
  for (const name of ["memory.db", "memory.db-wal", join("memory.keys", NOTES)])
    expect([name, statSync(join(harness.dir, name)).mode & 0o777]).toEqual([name, 0o600]);
  expect(statSync(join(harness.dir, "memory.keys")).mode & 0o777).toBe(0o700);
});

it("an unfinished key file of a killed daemon is deleted", async () => {
  const { harness } = await createFilledHarness();
  writeFileSync(join(harness.dir, "memory.keys", ".new"), "half of a key");
  await harness.restart();
  expect(harness.keyFiles()).toEqual([NOTES, OTHER]);
});
