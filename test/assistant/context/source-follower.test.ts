import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import {
  containsBytes,
  openContext,
  waitUntilFound,
  writeFiles,
} from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const until = (check: () => Promise<void> | void) =>
  vi.waitFor(check, { ...WAIT_OPTIONS, interval: 30 });

it("created, changed, renamed and deleted files are indexed", async () => {
  const folder = temporaryFolder("context");
  writeFiles(folder, {
    "a.md": "# First\n\nmarmalade is sticky\n\n## Second part\n\ncucumber",
    "sub/b.txt": "kept",
  });
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  const [first] = await harness.find("marmalade");

  writeFiles(folder, { "sub/deep/c.md": "# New\n\nmarmalade again" });
  await waitUntilFound(harness, "marmalade", ["First", "New"]);

  // The unchanged paragraphs of a saved file keep their passage ids.
  writeFileSync(
    join(folder, "a.md~"),
    "# First\n\nmarmalade is sticky\n\n## Second part\n\nradish",
  );
  renameSync(join(folder, "a.md~"), join(folder, "a.md"));
  await waitUntilFound(harness, "radish", ["First > Second part"]);
  expect(await harness.find("cucumber")).toEqual([]);
  expect((await harness.find("marmalade")).map(({ id }) => id)).toContain(first?.id);

  renameSync(join(folder, "a.md"), join(folder, "sub/moved.md"));
  await until(async () => {
    const found = (await harness.find("marmalade")).find(({ title }) => title === "First");
    expect(found).toMatchObject({ id: first?.id, uri: expect.stringContaining("/sub/moved.md") });
  });

  renameSync(join(folder, "sub"), join(folder, "other"));
  await until(async () => {
    const hits = await harness.find("marmalade");
    expect(hits.map(({ uri }) => uri).every((uri) => uri.includes("/other/"))).toBe(true);
    expect(hits.map(({ id }) => id)).toContain(first?.id);
  });
  writeFiles(folder, { "other/deep/d.md": "# Watched there too\n\nmarmalade" });
  await waitUntilFound(harness, "marmalade", ["First", "New", "Watched there too"]);

  rmSync(join(folder, "other"), { recursive: true });
  await waitUntilFound(harness, "marmalade", []);
  expect(harness.context.indexState()).toMatchObject({ state: "ready" });
});

it("no byte of a deleted text is left on the disk", async () => {
  const folder = temporaryFolder("context");
  const canary = "zyxwvqcanary";
  const many = Array.from({ length: 40 }, (_, at) => [
    `${at}.md`,
    `# ${at}\n\nsome other words ${at}`,
  ]);
  writeFiles(folder, { "plan.md": `# Plan\n\nthe word is ${canary}`, ...Object.fromEntries(many) });
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  expect(await harness.find(canary)).toHaveLength(1);
  expect(containsBytes(harness.dir, canary)).toBe(true);
  unlinkSync(join(folder, "plan.md"));
  await waitUntilFound(harness, canary, []);
  await until(() => expect(containsBytes(harness.dir, canary)).toBe(false));
});

it("a burst of changes is indexed completely", async () => {
  const folder = temporaryFolder("context");
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  for (let at = 0; at < 400; at += 1) {
    mkdirSync(join(folder, `d${at % 20}`), { recursive: true });
    writeFileSync(join(folder, `d${at % 20}`, `${at}.txt`), `burst number ${at}`);
    if (at % 4 === 3) unlinkSync(join(folder, `d${(at - 1) % 20}`, `${at - 1}.txt`));
  }
  await until(() => expect(harness.context.indexState().documents).toBe(300));
  expect(await harness.find("399")).toHaveLength(1);
});

it("ignored files, hidden files, secrets, links and files that are not text are not indexed", async () => {
  const [folder, outside] = [temporaryFolder("context"), temporaryFolder("context")];
  writeFiles(outside, { "far.txt": "findme outside" });
  writeFiles(folder, {
    "kept.txt": "findme kept",
    ".gitignore": "*.log\n/build/\n!important.log\n",
    ".berthignore": "drafts/\n",
    "noise.log": "findme",
    "important.log": "findme important",
    "build/out.txt": "findme",
    "src/build/in.txt": "findme inner",
    "drafts/a.txt": "findme",
    "node_modules/x/readme.md": "findme",
    ".hidden.txt": "findme",
    ".ssh/config": "findme",
    "app.env": "findme",
    "server.pem": "findme",
    id_ed25519: "findme",
    "pasted.txt": "findme\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n",
    "picture.bin": Buffer.from([0x66, 0, 1, 2, 3, 0, 0, 9]),
    "paper.pdf": "%PDF-1.7 findme",
    "huge.txt": `findme ${"x".repeat(2 * 1024 * 1024)}`,
    "utf16.txt": Buffer.from("\ufefffindme sixteen", "utf16le"),
    "latin1.txt": Buffer.from("findme na\xefve", "latin1"),
  });
  symlinkSync(join(outside, "far.txt"), join(folder, "link.txt"));
  symlinkSync(outside, join(folder, "linked"));
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  const names = async () =>
    (await harness.find("findme", { limit: 50 }))
      .map(({ uri }) => uri.split("/").at(-1) ?? "")
      .toSorted((a, b) => (a < b ? -1 : 1));
  expect(await names()).toEqual(["important.log", "in.txt", "kept.txt", "latin1.txt", "utf16.txt"]);
  expect(await harness.find("naïve")).toHaveLength(1);
  expect(harness.context.indexState().sources).toEqual([
    { name: "notes", documents: 5, skipped: 4, state: "ready", message: null },
  ]);
  writeFileSync(join(folder, ".berthignore"), "kept.txt\n");
  await until(async () =>
    expect(await names()).toEqual(["a.txt", "important.log", "in.txt", "latin1.txt", "utf16.txt"]),
  );
});

it("an unchanged file is not read again after a restart", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  writeFiles(folder, { "a.md": "# One\n\nalpha", "b.md": "# Two\n\nbeta" });
  const first = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  const [before] = await first.find("alpha");
  await first.context[Symbol.asyncDispose]();
  writeFileSync(join(folder, "b.md"), "# Two\n\ngamma");
  const second = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  expect((await second.find("alpha"))[0]?.id).toBe(before?.id);
  expect(await second.find("beta")).toEqual([]);
  expect(await second.find("gamma")).toHaveLength(1);
  await second.context[Symbol.asyncDispose]();
  const third = await openContext({ dir, sources: [] });
  expect(await third.find("alpha")).toEqual([]);
  expect(third.context.indexState()).toEqual({
    v: 1,
    state: "empty",
    documents: 0,
    chunks: 0,
    sources: [],
    vectors: null,
  });
  expect(containsBytes(dir, "gamma")).toBe(false);
});

it("a damaged search index is built again", async () => {
  const [folder, dir] = [temporaryFolder("context"), temporaryFolder("context")];
  writeFiles(folder, { "a.md": "# One\n\nalpha" });
  writeFileSync(
    join(dir, "context.db"),
    "this is no database, and long enough to be looked at".repeat(100),
  );
  const harness = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  expect(await harness.find("alpha")).toHaveLength(1);
});

it("the problem of a source is reported, and the source is indexed as soon as the problem is solved", async () => {
  const parent = temporaryFolder("context");
  const path = join(parent, "later");
  const harness = await openContext({
    sources: [
      { name: "later", path },
      { name: "keys", path: join(parent, ".ssh") },
    ],
    timing: { debounceMs: 50, degradedRescanMs: 100 },
  });
  expect(harness.context.indexState()).toMatchObject({
    state: "degraded",
    sources: [
      { name: "later", state: "degraded", message: expect.stringContaining("does not exist") },
      { name: "keys", state: "degraded", message: expect.stringContaining("never indexed") },
    ],
  });
  writeFiles(parent, { "later/a.md": "# Came\n\nalpha", ".ssh/config": "alpha" });
  await waitUntilFound(harness, "alpha", ["Came"]);
  await until(() =>
    expect(harness.context.indexState().sources[0]).toMatchObject({ state: "ready" }),
  );
});
