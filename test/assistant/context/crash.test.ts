import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { expect, it, onTestFinished, vi } from "vitest";
import type { IndexState } from "../../../src/assistant/context/port.ts";
import { bundleProgram } from "../../support/bundle-program.ts";
import { openContext, writeFiles } from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const program = await bundleProgram("test/support/context-process.mjs");
/** The number of kills, each of which takes about a second. The environment variable CONTEXT_KILLS changes it. */
const kills = Number(process.env["CONTEXT_KILLS"] ?? 3);

class Indexing {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  state: IndexState | undefined;

  constructor(command: string, args: readonly string[]) {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    this.#child = child;
    this.#ended = new Promise((resolve) => child.once("exit", () => resolve()));
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.state = JSON.parse(line);
    });
    onTestFinished(() => this.kill());
  }

  async until(check: (state: IndexState) => boolean): Promise<void> {
    const isSo = () => expect(this.state).toSatisfy((state) => state !== undefined && check(state));
    await vi.waitFor(isSo, { timeout: 20_000, interval: 5 });
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}

function assertIndexIsWhole(file: string): void {
  const db = new Database(file);
  try {
    expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
    // Asserts that the full-text index matches the stored texts.
    db.prepare(
      "INSERT INTO passage_words (passage_words, rank) VALUES ('integrity-check', 1)",
    ).run();
    const count = (from: string) => db.prepare(`SELECT count(*) FROM ${from}`).pluck().get();
    expect(count("chunk WHERE id NOT IN (SELECT id FROM passage)")).toBe(0);
    expect(count("passage WHERE id NOT IN (SELECT id FROM chunk)")).toBe(0);
    expect(count("chunk WHERE document NOT IN (SELECT id FROM document)")).toBe(0);
    expect(count("vector WHERE chunk NOT IN (SELECT id FROM chunk)")).toBe(0);
  } finally {
    db.close();
  }
}

const text = (at: number, turn: number) =>
  `# Page ${at}\n\nturn${turn} ${"some words of a page that go on ".repeat(60)}`;

it("an index stays consistent when its process is killed, and the next process continues with it", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  for (let turn = 0; turn < kills; turn += 1) {
    const files = Array.from({ length: 200 }, (_, at) => [`d${at % 7}/${at}.md`, text(at, turn)]);
    writeFiles(folder, Object.fromEntries(files));
    const child = new Indexing(process.execPath, [program, dir, folder]);
    const before = child.state;
    expect(before).toBeUndefined();
    // Each round kills the process during indexing, after a longer time than in the previous round.
    if (turn === 0) await child.until(({ chunks }) => chunks > 100);
    else {
      await child.until(({ state }) => state === "indexing");
      await new Promise((resolve) => setTimeout(resolve, turn * 40));
    }
    await child.kill();
    assertIndexIsWhole(join(dir, "context.db"));
  }
  const harness = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  expect(harness.context.indexState().documents).toBe(200);
  expect(await harness.find(`turn${kills - 1}`, { limit: 50 })).toHaveLength(50);
  for (let turn = 0; turn < kills - 1; turn += 1)
    expect(await harness.find(`turn${turn}`)).toEqual([]);
});

it("the problem is reported if the system has too few file watches, and the folder is scanned periodically instead", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  const folders = Array.from({ length: 12 }, (_, at) => [`d${at}/a.txt`, `words ${at}`]);
  writeFiles(folder, Object.fromEntries(folders));
  // The test lowers the limit on file watches in a user namespace, because a lower limit of the machine would affect
  // other processes.
  const limit = 'echo 5 > /proc/sys/user/max_inotify_watches && exec "$@"';
  const args = ["--user", "--map-root-user", "sh", "-c", limit, "sh"];
  const child = new Indexing("unshare", [...args, process.execPath, program, dir, folder]);
  await child.until(({ state }) => state === "degraded");
  expect(child.state?.sources[0]?.message).toContain("fs.inotify.max_user_watches");
  expect(child.state?.documents).toBe(12);
  for (let at = 0; at < 12; at += 1)
    writeFileSync(join(folder, `d${at}/b.txt`), `more words ${at}`);
  await child.until(({ documents, state }) => documents === 24 && state === "degraded");
  expect(readFileSync(join(dir, "context.db")).length).toBeGreaterThan(0);
});
