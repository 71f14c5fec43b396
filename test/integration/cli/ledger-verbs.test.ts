import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  appendEntries,
  createEntry,
  createStateDirectory,
  editDatabase,
  openTestLedger,
  protectTestLedger,
} from "../../support/ledger-fixtures.ts";
import { runCommandLine } from "../../support/run-cli.ts";

async function ledgerOf(count: number): Promise<string> {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  await appendEntries(ledger, count);
  return dir;
}

const run = (dir: string, ...words: string[]) =>
  runCommandLine(["ledger", ...words, "--data-dir", dir], { workingDirectory: dir });

describe("berth ledger verify", () => {
  it("exits with 0 for an intact ledger that a flag or the environment names, even while a daemon has the ledger open", async () => {
    const dir = await ledgerOf(5);
    expect(await run(dir, "verify")).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^whole: 6 entries, 4 sealed texts, 0 erased, 1 checkpoint\n/),
    });
    await using ledger = await openTestLedger(dir);
    await ledger.append(createEntry(7));
    const environment = { BERTH_ASSISTANT_DATA_DIR: dir };
    const { code, output } = await runCommandLine(["ledger", "verify", "--json"], { environment });
    expect(code).toBe(0);
    expect(JSON.parse(output)).toMatchObject({ v: 1, status: "whole", first_bad: null, size: 8 });
  });

  it("exits with 1 and names the first bad entry", async () => {
    const dir = await ledgerOf(9);
    editDatabase(dir, (db) =>
      db.exec("UPDATE entry SET body = replace(body, 'tiny', 'tidy') WHERE seq IN (4, 7)"),
    );
    const { code, output } = await run(dir, "verify");
    expect(code).toBe(1);
    expect(output).toBe(
      "tampered: the text of entry 4 does not match its hash\n  also: the text of entry 7 does not match its hash\n",
    );
    const json = await run(dir, "verify", "-o", "json");
    expect([json.code, JSON.parse(json.output)]).toMatchObject([
      1,
      { status: "tampered", first_bad: 4 },
    ]);
  });

  it("exits with 2 if a stored or separately kept checkpoint shows that the ledger is an older copy", async () => {
    const dir = await ledgerOf(3);
    const old = readFileSync(join(dir, "ledger/ledger.db"));
    const oldCheckpoint = readFileSync(join(dir, "ledger/checkpoint"));
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    const kept = await run(dir, "checkpoint");
    expect(kept.code).toBe(0);
    // Binary output can be compared, because the streams of the test do not change bytes.
    writeFileSync(join(dir, "kept.txt"), kept.output);
    expect((await run(dir, "verify", "--against", "kept.txt")).code).toBe(0);
    writeFileSync(join(dir, "ledger/ledger.db"), old);
    expect(await run(dir, "verify")).toMatchObject({
      code: 2,
      output: expect.stringMatching(
        /^rolled back or forked: .* covers 5 entries, but the ledger has 4/,
      ),
    });
    writeFileSync(join(dir, "ledger/checkpoint"), oldCheckpoint);
    expect((await run(dir, "verify")).code).toBe(0);
    expect((await run(dir, "verify", "--against", "kept.txt")).code).toBe(2);
  });

  it("exits with 3 and a hint if there is no ledger", async () => {
    const dir = createStateDirectory();
    const missing = await run(dir, "verify", "--json");
    expect(missing.code).toBe(3);
    expect(JSON.parse(missing.output)).toMatchObject({ status: "unreadable" });
    expect(missing.errors).toMatch(/no ledger in this data directory.*\n.*--data-dir/);
    const damaged = await ledgerOf(2);
    writeFileSync(join(damaged, "ledger/ledger.db"), "this is no database, and never was one");
    expect(await run(damaged, "verify")).toMatchObject({
      code: 3,
      errors: expect.stringContaining("damaged"),
    });
    const against = await run(await ledgerOf(1), "verify", "--against", "nothing.txt");
    expect(against.code).toBe(3);
  });

  it("exits with 4 for a missing, damaged or different key", async () => {
    const [dir, other] = [await ledgerOf(2), await ledgerOf(2)];
    const key = join(other, "ledger/ledger.vkey");
    expect(await run(dir, "verify", "--key", key)).toMatchObject({
      code: 4,
      output: expect.stringMatching(/^key: .*not signed by this ledger's key/),
    });
    expect((await run(dir, "prove", "1", "--key", key)).code).toBe(4);
    writeFileSync(join(dir, "ledger/ledger.vkey"), "x");
    expect((await run(dir, "verify")).code).toBe(4);
    rmSync(join(dir, "ledger/ledger.vkey"));
    expect(await run(dir, "verify")).toMatchObject({
      code: 4,
      errors: expect.stringContaining("public key is missing"),
    });
  });
});

describe("berth ledger", () => {
  it("prove proves an entry, and checkpoint --from proves that the ledger continues an earlier one", async () => {
    const dir = await ledgerOf(6);
    const { code, output } = await run(dir, "prove", "3");
    expect(code).toBe(0);
    expect(output).toMatch(
      /^c2sp\.org\/tlog-proof@v1\nindex 3\n([A-Za-z0-9+/]{43}=\n){3}\nberth\.local\/[0-9a-f]{16}\n7\n/,
    );
    const json = JSON.parse((await run(dir, "prove", "3", "--json")).output);
    expect(JSON.parse(json.body)).toMatchObject({ seq: 3 });
    const from = JSON.parse((await run(dir, "checkpoint", "--from", "4")).output);
    expect(from).toMatchObject({ from: 4, size: 7, path: [expect.any(String)] });
    editDatabase(dir, (db) => db.exec("UPDATE entry SET leaf = zeroblob(32) WHERE seq = 2"));
    expect(await run(dir, "prove", "3")).toMatchObject({ code: 1, output: "" });
  });

  it("exits with 5 for an entry that the ledger never had, and with 1 for one that was deleted", async () => {
    const dir = await ledgerOf(6);
    expect(await run(dir, "prove", "7")).toMatchObject({
      code: 5,
      output: "",
      errors: "error: the ledger has no entry 7\n",
    });
    const json = await run(dir, "prove", "7", "--json");
    expect([json.code, JSON.parse(json.output)]).toEqual([
      5,
      { v: 1, status: "not_found", reason: "the ledger has no entry 7" },
    ]);
    expect(await run(dir, "checkpoint", "--from", "8")).toMatchObject({
      code: 5,
      errors: "error: the ledger has only 7 entries, fewer than 8\n",
    });
    editDatabase(dir, (db) => db.exec("DELETE FROM entry WHERE seq = 5"));
    expect(await run(dir, "prove", "5")).toMatchObject({
      code: 1,
      errors: expect.stringContaining("entry 5 is missing"),
    });
    editDatabase(dir, (db) => db.exec("DELETE FROM entry; DELETE FROM checkpoint"));
    expect((await run(dir, "prove", "0")).code).toBe(1);
    rmSync(join(dir, "ledger/checkpoint"));
    expect((await run(dir, "prove", "0")).code).toBe(5);
  });

  it("prints the singular for a ledger of one entry", async () => {
    const dir = createStateDirectory();
    await (await openTestLedger(dir))[Symbol.asyncDispose]();
    expect((await run(dir, "verify")).output).toMatch(
      /^whole: 1 entry, 0 sealed texts, 0 erased, 1 checkpoint\n/,
    );
    expect((await run(dir, "export", "out")).output).toBe("out: 1 entry in 4 files\n");
  });

  it("tail prints the last entries, and their sealed texts with --sealed", async () => {
    const dir = await ledgerOf(6);
    const { output } = await run(dir, "tail", "-n", "2");
    expect(
      output
        .trimEnd()
        .split("\n")
        .map((line) => line.split("  ")[0]),
    ).toEqual(["5", "6"]);
    expect(output).not.toContain("prompt");
    expect(output).toMatch(/ {2}inference\.generate {2}(\w+=[^\s"]+ ?)+\n/);
    expect(output).not.toContain("{");
    const sealed = await run(dir, "tail", "--sealed", "--name", "inference.generate", "--json");
    const entries = sealed.output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(entries.map(({ seq }) => seq)).toEqual([1, 2, 4, 5]);
    expect(entries[0]).toMatchObject({ sealed_text: { prompt: "prompt 0" } });
  });

  it("verify and tail decrypt texts with the key in the data directory, and say so if they cannot", async () => {
    const dir = createStateDirectory();
    {
      await using ledger = await openTestLedger(dir);
      await protectTestLedger(ledger, dir);
      await appendEntries(ledger, 2);
    }
    const key = join(dir, "ledger-text-key");
    expect((await run(dir, "verify")).output).toMatch(/^whole: 3 entries, 2 sealed texts.*\nroot/);
    expect((await run(dir, "tail", "--sealed")).output).toContain('{"prompt":"prompt 0"}');
    chmodSync(key, 0o644);
    const why = "the file ledger-text-key in the assistant's data directory has the mode 0644";
    expect(await run(dir, "verify")).toMatchObject({
      code: 0,
      output: expect.stringMatching(`^whole: .*\ntexts  2 not checked: ${why}.*\nroot`),
    });
    expect((await run(dir, "tail", "--sealed")).output).toContain(`    (encrypted: ${why}`);
    const json = await run(dir, "tail", "--sealed", "-n", "1", "--json");
    expect(JSON.parse(json.output).sealed_text_locked).toContain(why);
    rmSync(key);
    expect(await run(dir, "verify", "--json")).toMatchObject({
      code: 4,
      output: expect.stringContaining('"unchecked": 2'),
    });
  });

  it("erase erases old texts for good, says how many, and asks only on a terminal", async () => {
    const dir = await ledgerOf(6);
    expect(await run(dir, "erase", "--before", "1d", "--yes")).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^no sealed text is older than \d{4}-/),
    });
    expect(await run(dir, "erase", "--before", "1ms")).toMatchObject({
      code: 2,
      errors: expect.stringContaining("add --yes"),
    });
    for (const when of ["yesterday", "2999-01-01", "2026-02-31T25:00:00Z"])
      expect((await run(dir, "erase", "--before", when, "--yes")).code).toBe(2);
    const json = await run(dir, "erase", "--before", "1ms", "--yes", "--json");
    expect([json.code, JSON.parse(json.output)]).toMatchObject([
      0,
      { v: 1, texts: 4, entries: 1, first: 1, last: 5 },
    ]);
    expect((await run(dir, "verify")).output).toMatch(
      /^whole: 8 entries, 0 sealed texts, 4 erased/,
    );
    expect((await run(dir, "tail", "--sealed")).output).toContain("(erased)");
    expect((await run(dir, "prove", "3")).code).toBe(0);
  });

  it("erase fails while an assistant other than the companion has the ledger open", async () => {
    const dir = createStateDirectory();
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 2);
    expect(await run(dir, "erase", "--before", "1ms", "--yes")).toMatchObject({
      code: 1,
      errors: expect.stringMatching(/is running.*\ntry:.*stop the assistant/),
    });
    expect((await run(dir, "verify")).output).toMatch(/2 sealed texts, 0 erased/);
  });

  it("export writes the ledger as tiles, and refuses a folder that is not empty", async () => {
    const dir = await ledgerOf(3);
    const { code, output } = await run(dir, "export", "out");
    expect([code, output]).toEqual([0, "out: 4 entries in 4 files\n"]);
    expect((await run(dir, "export", "out")).code).toBe(3);
  });
});

it("--user reads the ledger of the companion", async () => {
  const home = createStateDirectory();
  const dir = join(home, ".local/share/berth/companion");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  {
    await using ledger = await openTestLedger(dir);
    await appendEntries(ledger, 2);
  }
  const environment = { HOME: home };
  const verified = await runCommandLine(["ledger", "verify", "--user"], { environment });
  expect([verified.code, verified.output]).toEqual([0, expect.stringMatching(/^whole: 3 entries/)]);
  const elsewhere = await runCommandLine(
    ["ledger", "tail", "--user", "--data-dir", await ledgerOf(3)],
    {
      environment,
    },
  );
  expect(elsewhere.output.trimEnd().split("\n")).toHaveLength(4);
});
