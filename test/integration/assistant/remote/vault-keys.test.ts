import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Protection } from "../../../../src/assistant/remote/port.ts";
import { KeyFile } from "../../../../src/assistant/remote/vault/key-file.ts";
import { KeyNotStoredError } from "../../../../src/assistant/remote/vault/key-source.ts";
import type { Credential } from "../../../../src/assistant/remote/vault/port.ts";
import {
  mistral,
  openrouter,
  VaultHarness,
  vaultDirectory,
} from "../../../support/vault-harness.ts";

const key: Credential = { kind: "key", key: "sk-canary-5ca1ab1e" };
const CREDENTIAL = "berth.vault-key";

const ready = (source: Protection["source"]) => ({ source, state: "ready", message: null });
const locked = (source: Protection["source"], words: string) => ({
  source,
  state: "locked",
  message: expect.stringContaining(words),
});

/** Checks that every method fails with the message of the protection, and that no key is created meanwhile. */
async function expectLocked(world: VaultHarness, source: Protection["source"], words: string) {
  const { vault } = world;
  expect(vault.protection()).toEqual(locked(source, words));
  const files = readdirSync(world.dir).toSorted();
  const refusal = { code: "storage_failed", message: expect.stringContaining(words) };
  await expect(vault.get(openrouter)).rejects.toMatchObject(refusal);
  await expect(vault.put(mistral, key)).rejects.toMatchObject(refusal);
  expect(vault.protection().message).not.toContain(world.dir);
  expect(vault.describe("openrouter").present).toBe(true);
  expect(readdirSync(world.dir).toSorted()).toEqual(files);
}

async function stored(world = new VaultHarness()) {
  await world.start();
  await world.vault.put(openrouter, key);
  return { world, keyFile: join(world.dir, "vault-key") };
}

/** Creates a systemd credential with the key that `text` stands for. */
function credentialsOf(text: string): { readonly CREDENTIALS_DIRECTORY: string } {
  const dir = vaultDirectory();
  writeFileSync(join(dir, CREDENTIAL), Buffer.alloc(32, text), { mode: 0o400 });
  return { CREDENTIALS_DIRECTORY: dir };
}

describe("a key in a file", () => {
  it("is created with the first credential, is readable by its owner only, and is found again", async () => {
    const world = new VaultHarness();
    await world.start();
    const keyFile = join(world.dir, "vault-key");
    expect(world.vault.protection()).toEqual(ready("file"));
    expect(existsSync(keyFile)).toBe(false);
    await world.vault.put(openrouter, key);
    const { mode, size, nlink } = statSync(keyFile);
    expect([mode & 0o777, size, nlink]).toEqual([0o600, 32, 1]);
    const bytes = readFileSync(keyFile);
    await (await world.start()).put(mistral, key);
    expect(await world.vault.get(openrouter)).toEqual(key);
    expect(readFileSync(keyFile)).toEqual(bytes);
  });

  it("locks the vault while it is missing, and is never created again", async () => {
    const { world, keyFile } = await stored();
    renameSync(keyFile, `${keyFile}.away`);
    await world.start();
    await expectLocked(world, "file", "is missing");
    renameSync(`${keyFile}.away`, keyFile);
    expect(await world.vault.get(openrouter)).toEqual(key);
    expect(world.vault.protection()).toEqual(ready("file"));
  });

  it("is distinguished from another key, and from a damaged credential", async () => {
    const { world, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    writeFileSync(keyFile, Buffer.alloc(32, "other"));
    await world.start();
    await expectLocked(world, "file", "is not the one");
    writeFileSync(keyFile, bytes);
    expect(await world.vault.get(openrouter)).toEqual(key);
  });

  it.each<[string, string, (file: string) => void]>([
    ["readable by others", "has the mode 0640", (file) => chmodSync(file, 0o640)],
    ["writable by others", "has the mode 0602", (file) => chmodSync(file, 0o602)],
    ["too short", "has 31 bytes", (file) => writeFileSync(file, Buffer.alloc(31))],
    ["too long", "has 33 bytes", (file) => writeFileSync(file, Buffer.alloc(33))],
    [
      "a link",
      "is a link",
      (file) => {
        renameSync(file, `${file}.real`);
        symlinkSync(`${file}.real`, file);
      },
    ],
    [
      "a folder",
      "is not a file",
      (file) => {
        rmSync(file);
        mkdirSync(file, { mode: 0o600 });
      },
    ],
  ])("is refused while it is %s", async (_, words, spoil) => {
    const { world, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    spoil(keyFile);
    await world.start();
    await expectLocked(world, "file", words);
    rmSync(keyFile, { recursive: true });
    writeFileSync(keyFile, bytes, { mode: 0o600 });
    expect(await world.vault.get(openrouter)).toEqual(key);
  });

  it.runIf(process.getuid?.() === 0)("is refused if it belongs to another user", async () => {
    const { world, keyFile } = await stored();
    chownSync(keyFile, 65_534, 65_534);
    await world.start();
    await expectLocked(world, "file", "belongs to another user");
    expect(readFileSync(keyFile)).toHaveLength(32);
  });

  it("is refused if this process runs as another user than its owner", async () => {
    const { world } = await stored();
    const mine = process.geteuid?.() ?? 0;
    expect(await new KeyFile(world.dir, mine + 1).probe()).toMatchObject({ state: "locked" });
    expect(await new KeyFile(world.dir, mine).probe()).toMatchObject({ state: "key" });
  });

  it("is never replaced by one that is created at the same time", async () => {
    const { world, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    const keeping = new KeyFile(world.dir).store(Buffer.alloc(32, "late"));
    await expect(keeping).rejects.toThrow(KeyNotStoredError);
    expect(readFileSync(keyFile)).toEqual(bytes);
    expect(existsSync(`${keyFile}.new`)).toBe(false);
  });

  it("belongs to one vault and cannot decrypt another", async () => {
    const [one, other] = [await stored(), await stored()];
    expect(readFileSync(one.keyFile)).not.toEqual(readFileSync(other.keyFile));
    copyFileSync(one.keyFile, other.keyFile);
    await other.world.start();
    await expectLocked(other.world, "file", "is not the one");
  });
});

describe("files that a killed daemon left", () => {
  it("an incomplete key file is deleted", async () => {
    const world = new VaultHarness();
    writeFileSync(join(world.dir, "vault-key.new"), Buffer.alloc(7), { mode: 0o600 });
    await stored(world);
    expect(readdirSync(world.dir)).not.toContain("vault-key.new");
    expect(await (await world.start()).get(openrouter)).toEqual(key);
  });

  it("a complete key under both names is used if nothing is encrypted yet", async () => {
    const world = new VaultHarness();
    const keyFile = join(world.dir, "vault-key");
    await world.start();
    writeFileSync(`${keyFile}.new`, Buffer.alloc(32, "made"), { mode: 0o600 });
    linkSync(`${keyFile}.new`, keyFile);
    await world.start();
    await world.vault.put(openrouter, key);
    expect(readFileSync(keyFile)).toEqual(Buffer.alloc(32, "made"));
    expect(await (await world.start()).get(openrouter)).toEqual(key);
  });
});

describe("a systemd credential", () => {
  it("is preferred, and needs no key file", async () => {
    const world = new VaultHarness({ environment: credentialsOf("systemd") });
    await stored(world);
    expect(world.vault.protection()).toEqual(ready("systemd-credential"));
    expect(readdirSync(world.dir)).not.toContain("vault-key");
    expect(await (await world.start()).get(openrouter)).toEqual(key);
  });

  it("stays the only source: without it, or with another one, the vault is locked", async () => {
    const environment = credentialsOf("systemd");
    const { world } = await stored(new VaultHarness({ environment }));
    await world.start({ environment: {} });
    await expectLocked(world, "systemd-credential", "is missing");
    await world.start({ environment: credentialsOf("another") });
    await expectLocked(world, "systemd-credential", "is not the one");
    await world.start();
    expect(await world.vault.get(openrouter)).toEqual(key);
  });

  it("that is added later does not affect a vault with a key file", async () => {
    const { world } = await stored();
    await world.start({ environment: credentialsOf("later") });
    expect(world.vault.protection()).toEqual(ready("file"));
    expect(await world.vault.get(openrouter)).toEqual(key);
  });

  it("of another length is refused, and no other source is used", async () => {
    const environment = credentialsOf("systemd");
    const file = join(environment.CREDENTIALS_DIRECTORY, CREDENTIAL);
    chmodSync(file, 0o600);
    writeFileSync(file, "too short");
    const world = new VaultHarness({ environment });
    await world.start();
    expect(world.vault.protection()).toEqual(locked("systemd-credential", "has 9 bytes"));
    await expect(world.vault.put(openrouter, key)).rejects.toMatchObject({
      code: "storage_failed",
    });
    expect(readdirSync(world.dir)).not.toContain("vault-key");
  });

  it("that two vaults share cannot decrypt the other vault's credentials", async () => {
    const environment = credentialsOf("shared");
    const { world: one } = await stored(new VaultHarness({ environment }));
    const { world: other } = await stored(new VaultHarness({ environment }));
    const [mine, theirs] = [one.readSealed("openrouter"), other.readSealed("openrouter")];
    expect(mine).not.toEqual(theirs);
    const stamp = one.sql((db) => db.prepare("SELECT set_at_ms FROM credential").pluck().get());
    other.sql((db) =>
      db.prepare("UPDATE credential SET sealed = ?, set_at_ms = ?").run(mine, stamp),
    );
    await expect(other.vault.get(openrouter)).rejects.toMatchObject({
      message: expect.stringContaining("is damaged"),
    });
  });
});

describe("a lost key", () => {
  it("is replaced by a new one when all credentials are cleared, and not before", async () => {
    const { world, keyFile } = await stored();
    await world.vault.put(mistral, key);
    rmSync(keyFile);
    await world.start();
    await world.vault.remove("mistral");
    await expectLocked(world, "file", "is missing");
    expect(await world.vault.remove("openrouter")).toBe(true);
    expect(world.vault.protection()).toEqual(ready("file"));
    await world.vault.put(openrouter, key);
    expect(await (await world.start()).get(openrouter)).toEqual(key);
  });

  it("is used for the next credential if it is still available", async () => {
    const { world, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    await world.vault.remove("openrouter");
    await world.vault.put(mistral, key);
    expect(readFileSync(keyFile)).toEqual(bytes);
    expect(await (await world.start()).get(mistral)).toEqual(key);
  });

  it("is no longer used once its file was deleted with the last credential", async () => {
    const { world, keyFile } = await stored();
    await world.vault.remove("openrouter");
    rmSync(keyFile);
    await world.vault.remove("openrouter");
    await world.vault.put(openrouter, key);
    expect(await (await world.start()).get(openrouter)).toEqual(key);
  });
});

it("another source is used after all credentials were cleared", async () => {
  const { world } = await stored();
  await world.vault.remove("openrouter");
  const environment = credentialsOf("from now on");
  await world.start({ environment });
  expect(world.vault.protection()).toEqual(ready("systemd-credential"));
  await world.vault.put(openrouter, key);
  expect(await (await world.start({ environment })).get(openrouter)).toEqual(key);
});

describe("the database", () => {
  it("of a newer version, or a damaged one, is refused with its name", async () => {
    const { world } = await stored();
    world.sql((db) => db.pragma("user_version = 99"));
    await expect(world.start()).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("newer version"),
    });
    writeFileSync(join(world.dir, "vault.db"), "no database".repeat(1_000));
    await expect(world.start()).rejects.toMatchObject({
      code: "storage_failed",
      message: "vault.db is damaged and cannot be read; restore it from a backup",
    });
  });
});
