import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { bundleProgram } from "../../support/bundle-program.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const PROGRAM = await bundleProgram("test/support/store-process.ts");

function dataDirectory(): string {
  const directory = temporaryFolder("lock");
  return join(directory, "data");
}

/** Starts a process that opens the store, and yields its lines of output. */
function startHolder(mode: "hold" | "write", dataDir: string) {
  const child = spawn(process.execPath, [PROGRAM, mode, dataDir], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

function open(dataDir: string): Store {
  return openStore({ dataDir, clock: systemClock });
}

const refusal = (dataDir: string) => catchBerthError(() => open(dataDir));

describe("the lock of a data directory", () => {
  it("excludes a second process, names its holder, and is released by kill -9", async () => {
    const dataDir = dataDirectory();
    const { child, lines } = startHolder("hold", dataDir);
    expect((await lines.next()).value).toBe("open");
    const error = refusal(dataDir);
    expect(error.code).toBe("store_locked");
    expect(error.message).toMatch(
      new RegExp(
        `in use by process ${child.pid} on ${hostname()} since \\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z$`,
      ),
    );
    expect(error.hint).toContain("--data-dir");
    expect(error.message).not.toContain(dataDir);
    await kill(child);
    await using store = open(dataDir);
    expect(store.list("App")).toEqual([]);
    const holder: unknown = JSON.parse(readFileSync(join(dataDir, "run/lock.json"), "utf8"));
    expect(holder).toMatchObject({ pid: process.pid, host: hostname() });
  });

  it("excludes a second store of the same process too, and is released by closing", async () => {
    const dataDir = dataDirectory();
    const store = open(dataDir);
    expect(refusal(dataDir).code).toBe("store_locked");
    expect(refusal(dataDir).message).toContain(`process ${process.pid} `);
    await store[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    expect(existsSync(join(dataDir, "run/lock.json"))).toBe(false);
    await open(dataDir)[Symbol.asyncDispose]();
  });

  it("is released if the store cannot be opened", async () => {
    const dataDir = dataDirectory();
    await open(dataDir)[Symbol.asyncDispose]();
    rmSync(join(dataDir, "secret.key"));
    expect(refusal(dataDir).code).toBe("store_corrupt");
    expect(refusal(dataDir).code).toBe("store_corrupt");
  });

  it("makes the directory accessible to its owner only", async () => {
    const dataDir = dataDirectory();
    await using store = open(dataDir);
    expect(store.lastSequence).toBe(0);
    const modeOf = (path: string) => statSync(join(dataDir, path)).mode & 0o777;
    expect(modeOf(".")).toBe(0o700);
    expect(modeOf("run")).toBe(0o700);
    for (const file of ["berth.db", "berth.db-wal", "secret.key", "run/lock.json"]) {
      expect([file, modeOf(file)]).toEqual([file, 0o600]);
    }
  });
});

describe("a store whose process was killed", () => {
  it("has every write that had returned, and no partial write", { timeout: 60_000 }, async () => {
    const dataDir = dataDirectory();
    for (let round = 0; round < 3; round += 1) {
      const { child, lines } = startHolder("write", dataDir);
      let last = "";
      for (let line = 0; line < 20 + round * 7; line += 1) {
        last = String((await lines.next()).value);
      }
      await kill(child);
      for (let line = await lines.next(); !line.done; line = await lines.next()) last = line.value;
      await using store = open(dataDir);
      const written = Number(last.replace("app-", ""));
      expect(written).toBeGreaterThanOrEqual(19);
      for (let number = 1; number <= written; number += 1) {
        expect(store.get("App", `app-${number}`)?.spec.env).toEqual({ NUMBER: String(number) });
      }
      const apps = store.list("App");
      // The store may have committed a write although the process never received the result.
      const changes = store.changesSince(0, 100_000) ?? [];
      expect(changes.filter((change) => change.type === "added")).toHaveLength(apps.length);
      expect(store.audit.list({ limit: 100_000 })).toHaveLength(apps.length);
    }
  });
});
