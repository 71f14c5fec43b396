import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it, vi } from "vitest";
import {
  containsBytes,
  openContext,
  waitUntilFound,
  writeFiles,
} from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

/** Turns an index into one of the previous format, which contains words and vectors learned from the texts. */
function makeFormer(dir: string, term: string): void {
  const db = new Database(join(dir, "context.db"));
  db.exec(`CREATE TABLE learned (space INTEGER NOT NULL, term TEXT NOT NULL, weight REAL NOT NULL, value BLOB NOT NULL,
      PRIMARY KEY (space, term)) STRICT, WITHOUT ROWID;
    INSERT INTO vector SELECT id, 1, 1.0, zeroblob(128) FROM chunk;
    UPDATE setting SET value = '2' WHERE name = 'reading';
    INSERT INTO setting VALUES ('space', '{"number":1,"id":"lsa:1","dimensions":128,"trainedOn":300}')`);
  db.prepare("INSERT INTO learned VALUES (1, ?, 1.0, zeroblob(512))").run(term);
  db.close();
}

it("an index of the previous format is built again, and the user's words in its table `learned` are erased", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  const learned = "zyxwvqlearned";
  writeFiles(folder, { "fleet.md": "# Fleet\n\nour ships are old" });
  const sources = [{ name: "notes", path: folder }];
  const first = await openContext({ dir, sources });
  await first.context[Symbol.asyncDispose]();
  makeFormer(dir, learned);
  expect(containsBytes(dir, learned)).toBe(true);

  const second = await openContext({ dir, sources });
  expect(await second.find("ship", { isHybrid: true })).toMatchObject([
    { title: "Fleet", mode: "lexical" },
  ]);
  expect(second.context.indexState()).toMatchObject({ state: "ready", documents: 1, chunks: 1 });
  expect(containsBytes(dir, learned)).toBe(false);
});

it("no byte of a deleted file is left in the full-text index or the embeddings", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  const canary = "zyxwvqcanary";
  const dimensions = 64;
  // The passage with the canary gets a vector whose bytes are letters, so that the test can search the files for
  // them.
  const marks = Buffer.from(
    "vectorcanaryvectorcanaryvectorcanaryvectorcanaryvectorcanary\x7f\x7f\x7f\x7f",
    "latin1",
  );
  const embed = (texts: readonly string[]) =>
    Promise.resolve(
      texts.map((text) =>
        text.includes(canary) ? Float32Array.from(marks) : new Float32Array(dimensions).fill(1),
      ),
    );
  writeFiles(folder, { "a.md": "# A\n\nplain words" });
  writeFileSync(join(folder, "deleted.md"), `# B\n\n${canary}`);
  const sources = [{ name: "notes", path: folder }];
  const context = await openContext({ dir, sources, embedder: { id: "m", dimensions, embed } });
  await vi.waitFor(() => expect(containsBytes(dir, "vectorcanary")).toBe(true), WAIT_OPTIONS);
  expect(containsBytes(dir, canary)).toBe(true);
  rmSync(join(folder, "deleted.md"));
  await waitUntilFound(context, canary, []);
  await vi.waitFor(() => {
    expect(containsBytes(dir, canary)).toBe(false);
    expect(containsBytes(dir, "vectorcanary")).toBe(false);
  }, WAIT_OPTIONS);
});
