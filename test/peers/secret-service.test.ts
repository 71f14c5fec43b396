import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { SecretService } from "../../src/assistant/key-sources/secret-service/secret-service.ts";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import { unlockTexts } from "../../src/assistant/ledger/offline-texts.ts";
import { listTextKeySources, TEXT_KEY_FILE } from "../../src/assistant/ledger/text-master-key.ts";
import { TextProtection } from "../../src/assistant/ledger/text-protection.ts";
import type { Credential } from "../../src/assistant/remote/vault/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { connectSessionBus, openConnection } from "../../src/dbus/connect-session-bus.ts";
import { Keyring } from "../support/keyring.ts";
import { appendEntries, createStateDirectory, openTestLedger } from "../support/ledger-fixtures.ts";
import { findFilesWith } from "../support/memory-harness.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";
import { mistral, openrouter, VaultHarness } from "../support/vault-harness.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

const canary = "sk-canary-0ddba11";
const key: Credential = { kind: "key", key: canary };
const ready = { source: "secret-service", state: "ready", message: null };
const locked = (words: string) => ({
  source: "secret-service",
  state: "locked",
  message: expect.stringContaining(words),
});

/**
 * Starts a session bus with a keyring in a temporary home folder. `secretsCommand` returns the command with which the
 * bus activates the Secret Service.
 */
async function desktop(secretsCommand?: (home: string) => string) {
  const home = temporaryFolder("keyring");
  const exec = secretsCommand?.(home);
  const services: Record<string, string> = exec
    ? { "secrets.service": `[D-BUS Service]\nName=org.freedesktop.secrets\nExec=${exec}\n` }
    : {};
  const bus = await TestSessionBus.start({ services });
  onTestFinished(() => bus[Symbol.asyncDispose]());
  const keyring = await Keyring.of(bus, home);
  const sessionBus = await connectSessionBus({ address: bus.address, negotiateFds: false });
  onTestFinished(() => sessionBus[Symbol.asyncDispose]());
  return { bus, keyring, sessionBus, harness: new VaultHarness({ sessionBus }) };
}

/** Starts to record every byte on the bus. */
async function watched(bus: TestSessionBus) {
  const child: ChildProcess = spawn("dbus-monitor", ["--binary", "--address", bus.address], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  });
  const chunks: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => chunks.push(chunk));
  const capture = {
    bytes: () => Buffer.concat(chunks),
    /** All bytes that were recorded so far. */
    until: async (mark: string) => {
      const name = `mark.${mark}`;
      const daemon = "org.freedesktop.DBus";
      await bus.gdbusCall(daemon, "/", `${daemon}.NameHasOwner`, name);
      await vi.waitFor(() => expect(capture.bytes().includes(name)).toBe(true), WAIT_OPTIONS);
      return capture.bytes();
    },
  };
  // The monitor starts asynchronously, so the test repeats a call until the monitor records it.
  await vi.waitFor(async () => {
    await bus.gdbusCall("org.freedesktop.DBus", "/", "org.freedesktop.DBus.GetId");
    expect(capture.bytes().includes("GetId")).toBe(true);
  }, WAIT_OPTIONS);
  return capture;
}

/** Returns the bytes of the header field MEMBER that a D-Bus message with this member name contains. */
function member(name: string): Buffer {
  return Buffer.from(`\x03\x01s\0${String.fromCharCode(name.length)}\0\0\0${name}\0`, "latin1");
}

test("the key of the ledger's encrypted texts has its own item in the keyring, and only reading the texts needs this key", async () => {
  const { keyring, sessionBus } = await desktop();
  await keyring.start({ isUnlocked: true });
  const dir = createStateDirectory();
  const from = { dir, environment: {}, sessionBus };
  const sources = (id: string) => listTextKeySources(from, id);
  await using ledger = await openTestLedger(dir);
  const options = { ledger, sources, clock: systemClock, logger: silentLogger };
  await using protection = new TextProtection(options);
  await protection.protect();
  await appendEntries(ledger, 3);
  expect(existsSync(join(dir, TEXT_KEY_FILE))).toBe(false);
  expect(await keyring.secrets()).toHaveLength(1);
  using opened = OfflineLedger.open(dir);
  const { signal } = new AbortController();
  await unlockTexts(opened, from, signal);
  expect(opened.verify()).toMatchObject({ status: "whole", sealed: 2, unchecked: 0 });

  await keyring.lock();
  await appendEntries(ledger, 3, 3);
  await unlockTexts(opened, from, signal);
  expect(opened.verify()).toMatchObject({
    status: "whole",
    sealed: 4,
    unchecked: 4,
    uncheckedReason: expect.stringContaining("unlock your keyring"),
  });
});

describe("a key in the desktop's keyring", () => {
  test("is created by the first credential, and neither the key nor the credential is visible on the bus", async () => {
    const { bus, keyring, harness } = await desktop();
    await keyring.start({ isUnlocked: true });
    const capture = await watched(bus);
    await harness.start();
    expect(harness.vault.protection()).toEqual(ready);
    expect(await keyring.items()).toEqual([]);
    await harness.vault.put(openrouter, key);
    await harness.start();
    expect(await harness.vault.get(openrouter)).toEqual(key);
    expect(harness.vault.protection()).toEqual(ready);
    const seen = await capture.until("before");

    const [text = ""] = await keyring.secrets();
    const master = Buffer.from(text, "base64");
    expect(master).toHaveLength(32);
    expect(seen.includes("dh-ietf1024-sha256-aes128-cbc-pkcs7")).toBe(true);
    for (const secret of [canary, text, master, master.toString("hex")]) {
      expect(seen.includes(secret)).toBe(false);
      expect(findFilesWith(harness.dir, secret)).toEqual([]);
    }
    // `keyring.secrets()` transfers the text without encryption, so the capture shows it. An unencrypted key would have
    // been visible, too.
    expect((await capture.until("after")).includes(text)).toBe(true);
    expect(existsSync(join(harness.dir, "vault-key"))).toBe(false);
  });

  test("is awaited while the keyring is locked or missing, without a prompt and without a restart", async () => {
    const { bus, keyring, harness } = await desktop();
    await keyring.start({ isUnlocked: true });
    await (await harness.start()).put(openrouter, key);
    await keyring.stop();
    const capture = await watched(bus);

    await harness.start();
    expect(harness.vault.protection()).toEqual(locked("is not available"));
    await expect(harness.vault.put(mistral, key)).rejects.toMatchObject({ code: "storage_failed" });

    await keyring.start({ isUnlocked: false });
    await expect(harness.vault.get(openrouter)).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("unlock your keyring"),
    });
    expect(harness.vault.protection()).toEqual(locked("is locked"));
    await expect(harness.vault.put(mistral, key)).rejects.toMatchObject({ code: "storage_failed" });
    expect(harness.vault.describe("openrouter").present).toBe(true);
    const seen = await capture.until("locked");
    expect(seen.includes(member("Dismiss"))).toBe(true);
    expect(seen.includes(member("Prompt"))).toBe(false);

    await keyring.unlock();
    expect(await harness.vault.get(openrouter)).toEqual(key);
    expect(harness.vault.protection()).toEqual(ready);
    await keyring.lock();
    // The daemon keeps the key in memory until it exits, so it works although the keyring is locked again.
    expect(await harness.vault.get(openrouter)).toEqual(key);
    expect(existsSync(join(harness.dir, "vault-key"))).toBe(false);
  });

  test("that does not exist yet is not stored in a file while the keyring is locked", async () => {
    const { keyring, harness } = await desktop();
    await keyring.start({ isUnlocked: true });
    await keyring.lock();
    await harness.start();
    expect(harness.vault.protection()).toEqual(locked("is locked"));
    await expect(harness.vault.put(openrouter, key)).rejects.toMatchObject({
      code: "storage_failed",
    });
    await keyring.unlock();
    await harness.vault.put(openrouter, key);
    expect(harness.vault.protection()).toEqual(ready);
  });

  test("exists separately for each vault, and a vault notices that its key was replaced", async () => {
    const { keyring, harness, sessionBus } = await desktop();
    await keyring.start({ isUnlocked: true });
    await (await harness.start()).put(openrouter, key);
    const [item = ""] = await keyring.items();
    const other = new VaultHarness({ sessionBus });
    await (await other.start()).put(openrouter, key);
    expect(new Set(await keyring.secrets()).size).toBe(2);

    await keyring.setSecret(item, Buffer.alloc(32, "other").toString("base64"));
    await harness.start();
    expect(harness.vault.protection()).toEqual(locked("is not the key with which"));
    await keyring.setSecret(item, "hunter2");
    await harness.start();
    expect(harness.vault.protection()).toEqual(locked("contains no key"));
    expect(await (await other.start()).get(openrouter)).toEqual(key);
  });
});

describe("without a usable keyring", () => {
  test("the key is stored in a file if there is no keyring, or no service for one", async () => {
    const { keyring, harness } = await desktop();
    await harness.start();
    expect(harness.vault.protection()).toMatchObject({ source: "file", state: "ready" });
    // The Secret Service runs, but no keyring was ever created.
    await keyring.start({ isUnlocked: false });
    await (await harness.start()).put(openrouter, key);
    expect(harness.vault.protection()).toMatchObject({ source: "file", state: "ready" });
    expect(readFileSync(join(harness.dir, "vault-key"))).toHaveLength(32);
  });

  test("a keyring service that fails to start counts as missing", async () => {
    const { harness } = await desktop(() => "/bin/false");
    await (await harness.start()).put(openrouter, key);
    expect(harness.vault.protection()).toMatchObject({ source: "file", state: "ready" });
  });
});

test("the bus starts a keyring service that does not run yet", async () => {
  const { keyring, harness } = await desktop((home) => Keyring.startCommand(home));
  await keyring.start({ isUnlocked: true });
  await (await harness.start()).put(openrouter, key);
  await keyring.stop();
  await harness.start();
  expect(await keyring.isServed()).toBe(true);
  expect(harness.vault.protection()).toEqual(locked("is locked"));
  await keyring.unlock();
  expect(await harness.vault.get(openrouter)).toEqual(key);
});

test("a keyring that never answers delays the daemon no longer than its time limit", async () => {
  const { bus, sessionBus } = await desktop();
  const silent = await openConnection({
    address: bus.address,
    negotiateFds: false,
    receiver: { onCall: () => {}, onSignal: () => {} },
    bodyBytesMax: 1_000_000,
    valuesMax: 1_000_000,
  });
  onTestFinished(() => silent[Symbol.asyncDispose]());
  const request = {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    member: "RequestName",
    signature: "su",
    args: ["org.freedesktop.secrets", 0],
  };
  const { signal } = new AbortController();
  expect(await silent.call(request, { signal, timeoutMs: 5_000 })).toEqual([1]);
  const source = new SecretService(sessionBus, "vault", { probeMs: 100 });
  const why = expect.stringContaining("does not answer");
  expect(await source.probe(signal)).toEqual({ state: "locked", why });
  const ending = new AbortController();
  const looking = new SecretService(sessionBus, "vault").probe(ending.signal);
  ending.abort(new Error("the daemon ends"));
  await expect(looking).rejects.toThrow("the daemon ends");
});
