import { appendFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it, vi } from "vitest";
import {
  containsBytes,
  openContext,
  waitUntilFound,
  writeFiles,
} from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { UNBOUNDED_AFTER_MS, WAIT_OPTIONS } from "../../support/wait-limits.ts";

const privateKey =
  "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkK\n-----END OPENSSH PRIVATE KEY-----";

it("a file is not indexed if it has a private key that is compressed, in base64 or behind markup", async () => {
  const folder = temporaryFolder("context");
  const page = `.TH X 1\n.SH NAME\nx \\- zyxcanary\n.nf\n${privateKey}\n.fi\n`;
  writeFiles(folder, {
    "x.1.gz": gzipSync(page),
    "y.1": page.replaceAll("-", "\\-"),
    "k8s.yaml": `zyxcanary\ntls: ${Buffer.from(privateKey).toString("base64")}\n`,
    "key.html": `<p>zyxcanary<pre>${privateKey.replace("OPENSSH PRIVATE", "OPENSSH&#32;PRIVATE")}</pre>`,
    "seen.md": "# Seen\n\nharbour",
  });
  const context = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(context, "harbour", ["Seen"]);
  expect(await context.find("zyxcanary")).toEqual([]);
  expect(containsBytes(context.dir, "zyxcanary")).toBe(false);
});

it("a file is deleted from the index when a private key is added to it", async () => {
  const folder = temporaryFolder("context");
  writeFiles(folder, { "notes.txt": "zyxcanary before", "seen.md": "# Seen\n\nharbour" });
  const context = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(context, "zyxcanary", ["notes"]);
  appendFileSync(join(folder, "notes.txt"), `\n${privateKey}\n`);
  await waitUntilFound(context, "zyxcanary", []);
  await vi.waitFor(() => expect(containsBytes(context.dir, "zyxcanary")).toBe(false), WAIT_OPTIONS);
});

it("a search returns hits in files whose modification time is outside of the range of JavaScript dates", async () => {
  const folder = temporaryFolder("context");
  writeFiles(folder, { "far.md": "# Far\n\nharbour", "early.md": "# Early\n\nharbour" });
  utimesSync(join(folder, "far.md"), 0, 9e12);
  utimesSync(join(folder, "early.md"), 0, -9e12);
  const context = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(context, "harbour", ["Far", "Early"]);
  for (const { mtime } of await context.find("harbour")) expect(mtime).toMatch(/^\d{4}-\d\d-\d\dT/);
});

it("a burst of changes in a source of many files is indexed within the time limit", async () => {
  const folder = temporaryFolder("context");
  const names = Array.from({ length: 3_000 }, (_, at) => `${at % 40}/${at}.txt`);
  writeFiles(folder, Object.fromEntries(names.map((name) => [name, `file ${name}`])));
  const context = await openContext({ sources: [{ name: "notes", path: folder }] });
  const began = performance.now();
  for (const name of names.slice(0, 2_000)) writeFileSync(join(folder, name), "changed harbour");
  writeFileSync(join(folder, "39/2999.txt"), "zebra");
  await waitUntilFound(context, "zebra", ["2999"]);
  // An earlier version read all files from the index at each change, so these 2,001 changes took a minute.
  expect(performance.now() - began).toBeLessThan(UNBOUNDED_AFTER_MS);
}, 60_000);

it("the index deletes the words of files and sources that were removed while it was closed", async () => {
  const [folder, other, dir] = [
    temporaryFolder("context"),
    temporaryFolder("context"),
    temporaryFolder("context"),
  ];
  writeFiles(folder, { "kept.txt": "flour oven", "removed.txt": "zyxcanaryone flour oven" });
  writeFiles(other, { "other.txt": "zyxcanarytwo flour oven" });
  const first = await openContext({
    dir,
    sources: [
      { name: "notes", path: folder },
      { name: "other", path: other },
    ],
  });
  await first.context[Symbol.asyncDispose]();
  expect(containsBytes(dir, "zyxcanaryone") && containsBytes(dir, "zyxcanarytwo")).toBe(true);
  rmSync(join(folder, "removed.txt"));
  const second = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(second, "zyxcanaryone", []);
  await vi.waitFor(() => {
    expect(containsBytes(dir, "zyxcanarytwo")).toBe(false);
    expect(containsBytes(dir, "zyxcanaryone")).toBe(false);
  }, WAIT_OPTIONS);
});
