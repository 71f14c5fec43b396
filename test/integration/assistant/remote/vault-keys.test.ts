import { EventEmitter, once } from "node:events";
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
import { KeyFile } from "../../../../src/assistant/key-sources/key-file.ts";
import { KeyNotStoredError } from "../../../../src/assistant/key-sources/port.ts";
import type { Protection } from "../../../../src/assistant/remote/port.ts";
import type { Credential } from "../../../../src/assistant/remote/vault/port.ts";
import { raceWithAbort } from "../../../../src/base/race-with-abort.ts";
import type { SessionBus } from "../../../../src/dbus/port.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { mistral, openrouter, VaultHarness } from "../../../support/vault-harness.ts";

const key: Credential = { kind: "key", key: "sk-canary-5ca1ab1e" };
const CREDENTIAL = "berth.vault-key";

const ready = (source: Protection["source"]) => ({ source, state: "ready", message: null });
const locked = (source: Protection["source"], words: string) => ({
  source,
  state: "locked",
  message: expect.stringContaining(words),
});

/** Asserts that the vault is locked: get and put fail with a message that contains `words`, and no file is created. */
async function expectLocked(harness: VaultHarness, source: Protection["source"], words: string) {
  const { vault } = harness;
  expect(vault.protection()).toEqual(locked(source, words));
  const files = readdirSync(harness.dir).toSorted();
  const refusal = { code: "storage_failed", message: expect.stringContaining(words) };
  await expect(vault.get(openrouter)).rejects.toMatchObject(refusal);
  await expect(vault.put(mistral, key)).rejects.toMatchObject(refusal);
  expect(vault.protection().message).not.toContain(harness.dir);
  expect(vault.describe("openrouter").present).toBe(true);
  expect(readdirSync(harness.dir).toSorted()).toEqual(files);
}

async function stored(harness = new VaultHarness()) {
  await harness.start();
  await harness.vault.put(openrouter, key);
  return { harness, keyFile: join(harness.dir, "vault-key") };
}

/** Creates a systemd credential with a key that consists of repetitions of `text`. */
function credentialsOf(text: string): { readonly CREDENTIALS_DIRECTORY: string } {
  const dir = temporaryFolder("vault");
  writeFileSync(join(dir, CREDENTIAL), Buffer.alloc(32, text), { mode: 0o400 });
  return { CREDENTIALS_DIRECTORY: dir };
}

describe("a vault key in a file", () => {
  it("is created with the first credential, is readable by its owner only, and is used again after a restart", async () => {
    const harness = new VaultHarness();
    await harness.start();
    const keyFile = join(harness.dir, "vault-key");
    expect(harness.vault.protection()).toEqual(ready("file"));
    expect(existsSync(keyFile)).toBe(false);
    await harness.vault.put(openrouter, key);
    const { mode, size, nlink } = statSync(keyFile);
    expect([mode & 0o777, size, nlink]).toEqual([0o600, 32, 1]);
    const bytes = readFileSync(keyFile);
    await (await harness.start()).put(mistral, key);
    expect(await harness.vault.get(openrouter)).toEqual(key);
    expect(readFileSync(keyFile)).toEqual(bytes);
  });

  it("locks the vault while it is missing, and is never created again", async () => {
    const { harness, keyFile } = await stored();
    renameSync(keyFile, `${keyFile}.away`);
    await harness.start();
    await expectLocked(harness, "file", "is missing");
    renameSync(`${keyFile}.away`, keyFile);
    expect(await harness.vault.get(openrouter)).toEqual(key);
    expect(harness.vault.protection()).toEqual(ready("file"));
  });

  it("that does not fit the stored credentials locks the vault until the right key is back", async () => {
    const { harness, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    writeFileSync(keyFile, Buffer.alloc(32, "other"));
    await harness.start();
    await expectLocked(harness, "file", "is not the key with which");
    writeFileSync(keyFile, bytes);
    expect(await harness.vault.get(openrouter)).toEqual(key);
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
    const { harness, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    spoil(keyFile);
    await harness.start();
    await expectLocked(harness, "file", words);
    rmSync(keyFile, { recursive: true });
    writeFileSync(keyFile, bytes, { mode: 0o600 });
    expect(await harness.vault.get(openrouter)).toEqual(key);
  });

  it.runIf(process.getuid?.() === 0)("is refused if it belongs to another user", async () => {
    const { harness, keyFile } = await stored();
    chownSync(keyFile, 65_534, 65_534);
    await harness.start();
    await expectLocked(harness, "file", "belongs to another user");
    expect(readFileSync(keyFile)).toHaveLength(32);
  });

  it("is refused if this process does not run as the owner of the file", async () => {
    const { harness } = await stored();
    const mine = process.geteuid?.() ?? 0;
    expect(await new KeyFile(join(harness.dir, "vault-key"), mine + 1).probe()).toMatchObject({
      state: "locked",
    });
    expect(await new KeyFile(join(harness.dir, "vault-key"), mine).probe()).toMatchObject({
      state: "key",
    });
  });

  it("is never replaced by one that is created at the same time", async () => {
    const { harness, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    const keeping = new KeyFile(join(harness.dir, "vault-key")).store(Buffer.alloc(32, "late"));
    await expect(keeping).rejects.toThrow(KeyNotStoredError);
    expect(readFileSync(keyFile)).toEqual(bytes);
    expect(existsSync(`${keyFile}.new`)).toBe(false);
  });

  it("belongs to one vault and cannot decrypt another vault", async () => {
    const [one, other] = [await stored(), await stored()];
    expect(readFileSync(one.keyFile)).not.toEqual(readFileSync(other.keyFile));
    copyFileSync(one.keyFile, other.keyFile);
    await other.harness.start();
    await expectLocked(other.harness, "file", "is not the key with which");
  });
});

describe("files that a killed daemon left", () => {
  it("an incomplete key file is deleted", async () => {
    const harness = new VaultHarness();
    writeFileSync(join(harness.dir, "vault-key.new"), Buffer.alloc(7), { mode: 0o600 });
    await stored(harness);
    expect(readdirSync(harness.dir)).not.toContain("vault-key.new");
    expect(await (await harness.start()).get(openrouter)).toEqual(key);
  });

  it("a complete key is used although its temporary file still exists, if nothing is encrypted yet", async () => {
    const harness = new VaultHarness();
    const keyFile = join(harness.dir, "vault-key");
    await harness.start();
    writeFileSync(`${keyFile}.new`, Buffer.alloc(32, "made"), { mode: 0o600 });
    linkSync(`${keyFile}.new`, keyFile);
    await harness.start();
    await harness.vault.put(openrouter, key);
    expect(readFileSync(keyFile)).toEqual(Buffer.alloc(32, "made"));
    expect(await (await harness.start()).get(openrouter)).toEqual(key);
  });
});

describe("a systemd credential with the key of a vault", () => {
  it("is preferred, and needs no key file", async () => {
    const harness = new VaultHarness({ environment: credentialsOf("systemd") });
    await stored(harness);
    expect(harness.vault.protection()).toEqual(ready("systemd-credential"));
    expect(readdirSync(harness.dir)).not.toContain("vault-key");
    expect(await (await harness.start()).get(openrouter)).toEqual(key);
  });

  it("stays the only source of the key: without this credential, or with another one, the vault is locked", async () => {
    const environment = credentialsOf("systemd");
    const { harness } = await stored(new VaultHarness({ environment }));
    await harness.start({ environment: {} });
    await expectLocked(harness, "systemd-credential", "is missing");
    await harness.start({ environment: credentialsOf("another") });
    await expectLocked(harness, "systemd-credential", "is not the key with which");
    await harness.start();
    expect(await harness.vault.get(openrouter)).toEqual(key);
  });

  it("that is added later does not affect a vault with a key file", async () => {
    const { harness } = await stored();
    await harness.start({ environment: credentialsOf("later") });
    expect(harness.vault.protection()).toEqual(ready("file"));
    expect(await harness.vault.get(openrouter)).toEqual(key);
  });

  it("that is too short is refused, and no other source is used", async () => {
    const environment = credentialsOf("systemd");
    const file = join(environment.CREDENTIALS_DIRECTORY, CREDENTIAL);
    chmodSync(file, 0o600);
    writeFileSync(file, "too short");
    const harness = new VaultHarness({ environment });
    await harness.start();
    expect(harness.vault.protection()).toEqual(locked("systemd-credential", "has 9 bytes"));
    await expect(harness.vault.put(openrouter, key)).rejects.toMatchObject({
      code: "storage_failed",
    });
    expect(readdirSync(harness.dir)).not.toContain("vault-key");
  });

  it("that two vaults share does not allow one vault to decrypt the credentials of the other", async () => {
    const environment = credentialsOf("shared");
    const { harness: one } = await stored(new VaultHarness({ environment }));
    const { harness: other } = await stored(new VaultHarness({ environment }));
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

/** Creates a session bus that does not answer before the test allows it. It then answers that there is no keyring. */
function silentBus() {
  const answers = new EventEmitter();
  const isAnswering = once(answers, "begin");
  const call: SessionBus["call"] = async ({ member }, { signal }) => {
    await raceWithAbort(isAnswering, signal);
    return member === "NameHasOwner" ? [false] : [[]];
  };
  const sessionBus: SessionBus = {
    uniqueName: ":1.1",
    call,
    onSignal: async () => () => {},
    closed: new Promise(() => {}),
    async [Symbol.asyncDispose]() {},
  };
  return { sessionBus, answer: () => void answers.emit("begin") };
}

describe("a keyring that does not answer", () => {
  it("does not delay the opening of a vault, which is locked until the keyring answers", async () => {
    const { sessionBus, answer } = silentBus();
    const harness = new VaultHarness({ sessionBus });
    const vault = await harness.open();
    const waiting = locked("secret-service", "the keyring has not answered yet");
    await expect.poll(() => vault.protection()).toEqual(waiting);
    expect(vault.describe("openrouter").present).toBe(false);
    const put = vault.put(openrouter, key);
    answer();
    await put;
    expect(vault.protection()).toEqual(ready("file"));
    expect(await vault.get(openrouter)).toEqual(key);
  });

  it("does not delay the closing of a vault", async () => {
    const harness = new VaultHarness({ sessionBus: silentBus().sessionBus });
    await (await harness.open())[Symbol.asyncDispose]();
    expect(harness.logged).toEqual([]);
  });
});

describe("the key file of a vault", () => {
  it("that is missing is replaced by a new one when all credentials are removed, and not before", async () => {
    const { harness, keyFile } = await stored();
    await harness.vault.put(mistral, key);
    rmSync(keyFile);
    await harness.start();
    await harness.vault.remove("mistral");
    await expectLocked(harness, "file", "is missing");
    expect(await harness.vault.remove("openrouter")).toBe(true);
    expect(harness.vault.protection()).toEqual(ready("file"));
    await harness.vault.put(openrouter, key);
    expect(await (await harness.start()).get(openrouter)).toEqual(key);
  });

  it("that still exists after all credentials were removed is used for the next credential", async () => {
    const { harness, keyFile } = await stored();
    const bytes = readFileSync(keyFile);
    await harness.vault.remove("openrouter");
    await harness.vault.put(mistral, key);
    expect(readFileSync(keyFile)).toEqual(bytes);
    expect(await (await harness.start()).get(mistral)).toEqual(key);
  });

  it("that was deleted after all credentials were removed is replaced by a new one", async () => {
    const { harness, keyFile } = await stored();
    await harness.vault.remove("openrouter");
    rmSync(keyFile);
    await harness.vault.remove("openrouter");
    await harness.vault.put(openrouter, key);
    expect(await (await harness.start()).get(openrouter)).toEqual(key);
  });
});

it("after all credentials were cleared, a vault may take its key from another source", async () => {
  const { harness } = await stored();
  await harness.vault.remove("openrouter");
  const environment = credentialsOf("from now on");
  await harness.start({ environment });
  expect(harness.vault.protection()).toEqual(ready("systemd-credential"));
  await harness.vault.put(openrouter, key);
  expect(await (await harness.start({ environment })).get(openrouter)).toEqual(key);
});

describe("the database of a vault", () => {
  it("of a newer version, or a damaged one, is refused, and the error names its file", async () => {
    const { harness } = await stored();
    harness.sql((db) => db.pragma("user_version = 99"));
    await expect(harness.start()).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("newer version"),
    });
    writeFileSync(join(harness.dir, "vault.db"), "no database".repeat(1_000));
    await expect(harness.start()).rejects.toMatchObject({
      code: "storage_failed",
      message: "vault.db is damaged and cannot be read; restore it from a backup",
    });
  });
});
