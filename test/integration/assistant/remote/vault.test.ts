import { chmodSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import type { Credential } from "../../../../src/assistant/remote/vault/port.ts";
import { findFilesWith } from "../../../support/memory-harness.ts";
import { Dice } from "../../../support/random.ts";
import { mistral, openrouter, VaultHarness } from "../../../support/vault-harness.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const canary = "sk-canary-b1f0c0ffee";
const key: Credential = { kind: "key", key: canary };
const tokens: Credential = {
  kind: "oauth",
  accessToken: `${canary}-access`,
  refreshToken: `${canary}-refresh`,
  expiresAtMs: Date.parse("2031-02-03T04:05:06Z"),
  clientId: "berth",
};
const damaged = { code: "storage_failed", message: expect.stringContaining("is damaged") };

/**
 * Returns the 16 bytes at each offset in `sealed` that is a multiple of 8. Any 24 consecutive bytes of `sealed` contain
 * one of these pieces.
 */
function piecesOf(sealed: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at + 16 <= sealed.length; at += 8) pieces.push(sealed.subarray(at, at + 16));
  return pieces;
}

function remainsOf(dir: string, sealed: Buffer): string[] {
  const texts = readdirSync(dir).map((name) => ({ name, bytes: readFileSync(join(dir, name)) }));
  const pieces = piecesOf(sealed);
  return texts
    .filter(({ bytes }) => pieces.some((piece) => bytes.includes(piece)))
    .map(({ name }) => name);
}

async function started() {
  const harness = new VaultHarness();
  return { harness, vault: await harness.start() };
}

describe("credentials in the vault", () => {
  it("of both kinds are read back unchanged, even after a restart", async () => {
    const { harness, vault } = await started();
    const bare: Credential = {
      kind: "oauth",
      accessToken: "a \u{1f511} \ud800",
      refreshToken: undefined,
      expiresAtMs: undefined,
      clientId: "c",
    };
    const third = { id: "third", origin: "https://third.example" };
    await vault.put(openrouter, key);
    await vault.put(mistral, tokens);
    await vault.put(third, bare);
    for (const start of [() => vault, () => harness.start()]) {
      const now = await start();
      expect(await now.get(openrouter)).toStrictEqual(key);
      expect(await now.get(mistral)).toStrictEqual(tokens);
      expect(await now.get(third)).toStrictEqual(bare);
      expect(await now.get({ id: "other", origin: openrouter.origin })).toBeUndefined();
    }
  });

  it("are described without their secret value, and are replaced by a second write", async () => {
    const { harness, vault } = await started();
    const none = { present: false, kind: null, set_at: null, expires_at: null };
    expect(vault.describe("openrouter")).toEqual(none);
    await vault.put(openrouter, key);
    expect(vault.describe("openrouter")).toMatchObject({ kind: "key", expires_at: null });
    const before = harness.readSealed("openrouter");
    await vault.put(openrouter, tokens);
    expect(vault.describe("openrouter")).toEqual({
      present: true,
      kind: "oauth",
      set_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      expires_at: "2031-02-03T04:05:06.000Z",
    });
    expect(remainsOf(harness.dir, before)).toEqual([]);
    expect(await vault.remove("openrouter")).toBe(true);
    expect(await vault.remove("openrouter")).toBe(false);
    expect(vault.describe("openrouter")).toEqual(none);
  });

  it("are refused if they are invalid", async () => {
    const { vault } = await started();
    const refused = async (credential: Credential, param: string) =>
      await expect(vault.put(openrouter, credential)).rejects.toMatchObject({
        code: "invalid_request",
        param,
      });
    await refused({ kind: "key", key: "" }, "key");
    await refused({ kind: "key", key: "k".repeat(16 * 1024 + 1) }, "key");
    await refused({ ...tokens, accessToken: "" }, "access_token");
    await refused({ ...tokens, refreshToken: "é".repeat(8 * 1024 + 1) }, "refresh_token");
    await refused({ ...tokens, expiresAtMs: Number.POSITIVE_INFINITY }, "expires_at");
    await refused({ ...tokens, expiresAtMs: 8.65e15 }, "expires_at");
    expect(vault.describe("openrouter").present).toBe(false);
    const longest: Credential = { kind: "key", key: "k".repeat(16 * 1024) };
    await vault.put(openrouter, longest);
    expect(await vault.get(openrouter)).toEqual(longest);
  });

  it("cannot be read for another origin", async () => {
    const { vault } = await started();
    await vault.put(openrouter, key);
    expect(await vault.get({ ...openrouter, origin: "https://openrouter.ai:444" })).toBeUndefined();
    expect(await vault.get({ ...openrouter, origin: "http://openrouter.ai" })).toBeUndefined();
  });

  it("stay bound to their provider and origin, even if the database is manipulated", async () => {
    const { harness, vault } = await started();
    await vault.put(openrouter, key);
    await vault.put(mistral, tokens);
    const kept = harness.sql((db) => db.prepare("SELECT * FROM credential").all());
    const change = async (sql: string, owner = openrouter) => {
      harness.sql((db) => db.exec(sql));
      await expect(vault.get(owner)).rejects.toMatchObject(damaged);
      harness.sql((db) => {
        db.exec("DELETE FROM credential");
        const put = db.prepare(
          `INSERT INTO credential VALUES (@provider, @origin, @kind, @set_at_ms, @expires_at_ms, @sealed)`,
        );
        for (const row of kept) put.run(row);
      });
      expect(await vault.get(openrouter)).toEqual(key);
    };
    const evil = { ...openrouter, origin: "https://evil.example" };
    await change("UPDATE credential SET origin = 'https://evil.example'", evil);
    await change(
      `UPDATE credential SET provider = 'third' WHERE provider = 'mistral';
       UPDATE credential SET provider = 'mistral' WHERE provider = 'openrouter';
       UPDATE credential SET provider = 'openrouter', origin = 'https://openrouter.ai' WHERE provider = 'third'`,
    );
    await change(
      "UPDATE credential SET sealed = (SELECT sealed FROM credential WHERE provider = 'mistral')",
    );
    await change("UPDATE credential SET kind = 'oauth'");
    await change("UPDATE credential SET expires_at_ms = 1");
    await change("UPDATE credential SET set_at_ms = set_at_ms + 1");
    await change("UPDATE credential SET sealed = substr(sealed, 1, length(sealed) - 1)");
    await change("UPDATE credential SET sealed = x''");
    await change("UPDATE credential SET sealed = substr(sealed, 1, 12)");
  });

  it("with any bit changed cannot be decrypted, and the error names the provider", async () => {
    const { harness, vault } = await started();
    await vault.put(openrouter, key);
    const sealed = harness.readSealed("openrouter");
    const write = (bytes: Buffer) =>
      harness.sql((db) => db.prepare("UPDATE credential SET sealed = ?").run(bytes));
    for (let at = 0; at < sealed.length; at += 1) {
      const flipped = Buffer.from(sealed);
      flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << (at % 8)), at);
      write(flipped);
      const error: unknown = await vault.get(openrouter).catch((thrown: unknown) => thrown);
      expect(error, `byte ${at}`).toMatchObject(damaged);
      expect(inspect(error)).toContain("openrouter");
    }
    write(sealed);
    expect(await vault.get(openrouter)).toEqual(key);
  });
});

describe("the vault", () => {
  it("leaves no key in a file, log, error or inspected object, and each encryption differs", async () => {
    const { harness, vault } = await started();
    await vault.put(openrouter, key);
    const first = harness.readSealed("openrouter");
    await vault.put(openrouter, key);
    expect(harness.readSealed("openrouter").subarray(0, 12)).not.toEqual(first.subarray(0, 12));
    await vault.put(mistral, tokens);
    const master = readFileSync(join(harness.dir, "vault-key"));
    const failure: unknown = await vault
      .put(openrouter, { kind: "key", key: canary.repeat(1000) })
      .catch((error: unknown) => error);
    harness.sql((db) => db.exec("UPDATE credential SET sealed = zeroblob(64)"));
    const broken: unknown = await vault.get(openrouter).catch((error: unknown) => error);
    const seen = inspect([vault, harness.logged, failure, broken], {
      depth: 20,
      showHidden: true,
      maxStringLength: null,
      maxArrayLength: null,
    });
    const spaced = master.toString("hex", 0, 8).replaceAll(/(..)(?!$)/g, "$1 ");
    expect(inspect(master)).toContain(spaced);
    for (const secret of [canary, master.toString("hex"), master.toString("base64"), spaced]) {
      expect(findFilesWith(harness.dir, secret)).toEqual([]);
      expect(seen).not.toContain(secret);
    }
    expect(findFilesWith(harness.dir, master)).toEqual(["vault-key"]);
  });

  it("keeps its files private to their owner, even a file that was restored from a backup", async () => {
    const { harness, vault } = await started();
    await vault.put(openrouter, key);
    await vault[Symbol.asyncDispose]();
    chmodSync(join(harness.dir, "vault.db"), 0o644);
    await (await harness.start()).put(mistral, key);
    const modes = readdirSync(harness.dir).map((name) => statSync(join(harness.dir, name)).mode);
    expect(modes.length).toBeGreaterThanOrEqual(2);
    expect(new Set(modes.map((mode) => mode & 0o777))).toEqual(new Set([0o600]));
  });

  it("removes every byte of a credential, while the other credentials remain", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const dice = new Dice(seed);
    // With durability off, the vault writes the same files, but does not wait for the disk.
    const harness = new VaultHarness({ durability: "off" });
    const vault = await harness.start();
    const gone: Buffer[] = [];
    const stored = new Map<string, string>();
    for (let step = 0; step < 60; step += 1) {
      const id = `p${dice.between(1, 12)}`;
      const owner = { id, origin: `https://${id}.example` };
      const had = stored.get(id);
      if (had !== undefined) gone.push(harness.readSealed(id));
      if (dice.chance(0.4)) {
        expect(await vault.remove(id), `seed ${seed}`).toBe(had !== undefined);
        stored.delete(id);
      } else {
        const text = "k".repeat(dice.pick([20, 50, 400, 900, 4_000, 16_000]));
        await vault.put(owner, { kind: "key", key: text });
        stored.set(id, text);
      }
      if (step % 6 === 0)
        for (const sealed of gone)
          expect(remainsOf(harness.dir, sealed), `seed ${seed}, step ${step}`).toEqual([]);
    }
    expect(gone.length).toBeGreaterThan(5);
    // The vault has rewritten the whole database, so no unused pages remain.
    expect(harness.sql((db) => db.pragma("freelist_count", { simple: true }))).toBe(0);
    for (const [id, text] of stored)
      expect(await vault.get({ id, origin: `https://${id}.example` })).toEqual({
        kind: "key",
        key: text,
      });
  });

  it("reports that a removed credential is still in a file while another program reads the database, and removes it later", async () => {
    const clock = new VirtualClock();
    const harness = new VaultHarness({ clock });
    const vault = await harness.start();
    await vault.put(openrouter, key);
    const sealed = harness.readSealed("openrouter");
    const reader = new Database(join(harness.dir, "vault.db"), { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT * FROM credential").all();
    const removal = vault.remove("openrouter").catch((error: unknown) => error);
    await clock.advance(6_000);
    const error = await removal;
    expect(error).toBeInstanceOf(AssistantError);
    expect(error).toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("another program reads"),
    });
    expect(vault.describe("openrouter").present).toBe(false);
    expect(remainsOf(harness.dir, sealed)).not.toEqual([]);
    reader.exec("COMMIT");
    reader.close();
    expect(await vault.remove("openrouter")).toBe(false);
    expect(remainsOf(harness.dir, sealed)).toEqual([]);
  });
});

describe("another program that writes to the database", () => {
  it("is waited for, and reported after five seconds", async () => {
    const clock = new VirtualClock();
    const harness = new VaultHarness({ clock });
    const vault = await harness.start();
    await vault.put(mistral, key);
    const other = new Database(join(harness.dir, "vault.db"));
    other.exec("BEGIN IMMEDIATE");
    const late = vault.put(openrouter, key).catch((error: unknown) => error);
    await clock.advance(6_000);
    expect(await late).toMatchObject({
      code: "busy",
      message: expect.stringContaining("another program has locked vault.db"),
    });
    const patient = vault.put(openrouter, key);
    await clock.advance(1_000);
    other.exec("COMMIT");
    other.close();
    await clock.advance(1_000);
    await patient;
    expect(await vault.get(openrouter)).toEqual(key);
  });
});

describe("disposing the vault", () => {
  it("rejects later calls, and completes those in progress", async () => {
    const { harness, vault } = await started();
    await vault.put(openrouter, key);
    const sealed = harness.readSealed("openrouter");
    const removal = vault.remove("openrouter");
    await vault[Symbol.asyncDispose]();
    expect(await removal).toBe(true);
    expect(remainsOf(harness.dir, sealed)).toEqual([]);
    await expect(vault.get(openrouter)).rejects.toMatchObject({ code: "shutting_down" });
    await expect(vault.put(openrouter, key)).rejects.toMatchObject({ code: "shutting_down" });
    expect(() => vault.describe("openrouter")).toThrow(/shutting down/);
  });

  it("completes writes in the order of their calls", async () => {
    const { vault } = await started();
    const all = [
      vault.put(openrouter, key),
      vault.remove("openrouter"),
      vault.put(openrouter, tokens),
      vault.put(mistral, key),
      vault.remove("mistral"),
    ];
    await Promise.all(all);
    expect(vault.describe("openrouter").kind).toBe("oauth");
    expect(vault.describe("mistral").present).toBe(false);
  });
});
