import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it, vi } from "vitest";
import { openContext, writeFiles } from "../../support/context-harness.ts";
import { Dice } from "../../support/random.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const PAGE = 4_096;

function notes(): string {
  const folder = temporaryFolder("context");
  const files = Array.from({ length: 300 }, (_, at) => [
    `${at}.md`,
    `# Note ${at}\n\nharbour ${at}`,
  ]);
  writeFiles(folder, Object.fromEntries(files));
  return folder;
}

/** Overwrites the first page of each table with noise. SQLite can still open the file. */
function damage(dir: string, tables: readonly string[]): void {
  const file = join(dir, "context.db");
  const db = new Database(file);
  const roots = db
    .prepare<[string], number>(
      "SELECT rootpage FROM sqlite_master WHERE name IN (SELECT value FROM json_each(?))",
    )
    .pluck()
    .all(JSON.stringify(tables));
  db.close();
  const dice = new Dice(tables.length);
  const descriptor = openSync(file, "r+");
  for (const root of roots) {
    const noise = Buffer.from(Array.from({ length: PAGE }, () => dice.between(0, 255)));
    writeSync(descriptor, noise, 0, PAGE, (root - 1) * PAGE);
  }
  closeSync(descriptor);
}

it.each([
  [["source"]],
  [["document"]],
  [["passage_words_data"]],
  [["setting"]],
  [["sqlite_master", "source", "document", "chunk", "passage", "passage_words_idx", "vector"]],
])(
  "the context service rebuilds an index in which these tables are damaged: %j",
  async (tables) => {
    const [folder, dir] = [notes(), temporaryFolder("context")];
    const sources = [{ name: "notes", path: folder }];
    const first = await openContext({ dir, sources });
    expect(await first.find("harbour", { limit: 50 })).toHaveLength(50);
    await first.context[Symbol.asyncDispose]();
    damage(dir, tables);
    const second = await openContext({ dir, sources });
    await vi.waitFor(
      async () => {
        // The search is the first access to the damaged pages.
        expect(await second.find("harbour 271").catch(() => [])).toMatchObject([
          { title: "Note 271" },
        ]);
        expect(second.context.indexState()).toMatchObject({ state: "ready", documents: 300 });
      },
      { timeout: 15_000, interval: 100 },
    );
    expect(await second.find("harbour", { limit: 50 })).toHaveLength(50);
  },
);
