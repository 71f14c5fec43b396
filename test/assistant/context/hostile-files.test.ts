import { appendFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it, vi } from "vitest";
import {
  containsBytes,
  openContext,
  temporaryFolder,
  waitUntilFound,
  writeFiles,
} from "../../support/context-harness.ts";
import { Dice } from "../../support/random.ts";
import { UNBOUNDED_AFTER_MS, WAIT_OPTIONS } from "../../support/wait-limits.ts";

const privateKey =
  "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkK\n-----END OPENSSH PRIVATE KEY-----";

it("indexes no private key in a compressed page, in base64 or in markup", async () => {
  const folder = temporaryFolder();
  const page = `.TH X 1\n.SH NAME\nx \\- zyxcanary\n.nf\n${privateKey}\n.fi\n`;
  writeFiles(folder, {
    "x.1.gz": gzipSync(page),
    "y.1": page.replaceAll("-", "\\-"),
    "k8s.yaml": `zyxcanary\ntls: ${Buffer.from(privateKey).toString("base64")}\n`,
    "key.html": `<p>zyxcanary<pre>${privateKey.replace("OPENSSH PRIVATE", "OPENSSH&#32;PRIVATE")}</pre>`,
    "seen.md": "# Seen\n\nharbour",
  });
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(harness, "harbour", ["Seen"]);
  expect(await harness.find("zyxcanary")).toEqual([]);
  expect(containsBytes(harness.dir, "zyxcanary")).toBe(false);
});

it("removes a file that becomes a secret", async () => {
  const folder = temporaryFolder();
  writeFiles(folder, { "notes.txt": "zyxcanary before", "seen.md": "# Seen\n\nharbour" });
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(harness, "zyxcanary", ["notes"]);
  appendFileSync(join(folder, "notes.txt"), `\n${privateKey}\n`);
  await waitUntilFound(harness, "zyxcanary", []);
  await vi.waitFor(() => expect(containsBytes(harness.dir, "zyxcanary")).toBe(false), WAIT_OPTIONS);
});

it("indexes a file with an impossible modification time", async () => {
  const folder = temporaryFolder();
  writeFiles(folder, { "far.md": "# Far\n\nharbour", "early.md": "# Early\n\nharbour" });
  utimesSync(join(folder, "far.md"), 0, 9e12);
  utimesSync(join(folder, "early.md"), 0, -9e12);
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(harness, "harbour", ["Far", "Early"]);
  for (const { mtime } of await harness.find("harbour")) expect(mtime).toMatch(/^\d{4}-\d\d-\d\dT/);
});

it("keeps up with a burst of changes in a source with many files", async () => {
  const folder = temporaryFolder();
  const names = Array.from({ length: 3_000 }, (_, at) => `${at % 40}/${at}.txt`);
  writeFiles(folder, Object.fromEntries(names.map((name) => [name, `file ${name}`])));
  const harness = await openContext({ sources: [{ name: "notes", path: folder }] });
  const began = performance.now();
  for (const name of names.slice(0, 2_000)) writeFileSync(join(folder, name), "changed harbour");
  writeFileSync(join(folder, "39/2999.txt"), "zebra");
  await waitUntilFound(harness, "zebra", ["2999"]);
  // Querying the index for all files at each change took a minute.
  expect(performance.now() - began).toBeLessThan(UNBOUNDED_AFTER_MS);
}, 60_000);

const marked = (canary: string) =>
  Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`m${at}.txt`, `${canary} flour oven`]));

it("forgets the words of files and sources that were removed while it was not running", async () => {
  const [folder, other, dir] = [temporaryFolder(), temporaryFolder(), temporaryFolder()];
  const topics = [
    "boat ship harbour sail quay",
    "bread flour oven yeast dough",
    "song chord melody drum tune",
  ];
  const dice = new Dice(7);
  const text = (at: number) => {
    const words = topics[at % 3]?.split(" ") ?? [];
    return Array.from({ length: 4 }, () => dice.pick(words)).join(" ");
  };
  writeFiles(
    folder,
    Object.fromEntries(Array.from({ length: 360 }, (_, at) => [`${at}.txt`, text(at)])),
  );
  writeFiles(folder, marked("zyxcanaryone"));
  writeFiles(other, marked("zyxcanarytwo"));
  const both = [
    { name: "notes", path: folder },
    { name: "other", path: other },
  ];
  const first = await openContext({ dir, sources: both });
  await vi.waitFor(
    async () => {
      const [hit] = await first.find("ship", { isHybrid: true });
      expect(hit?.mode).toBe("hybrid");
    },
    { timeout: 20_000, interval: 50 },
  );
  await first.context[Symbol.asyncDispose]();
  expect(containsBytes(dir, "zyxcanaryone") && containsBytes(dir, "zyxcanarytwo")).toBe(true);
  for (const name of Object.keys(marked(""))) rmSync(join(folder, name));
  const second = await openContext({ dir, sources: [{ name: "notes", path: folder }] });
  await waitUntilFound(second, "zyxcanaryone", []);
  await vi.waitFor(() => {
    expect(containsBytes(dir, "zyxcanarytwo")).toBe(false);
    expect(containsBytes(dir, "zyxcanaryone")).toBe(false);
  }, WAIT_OPTIONS);
}, 40_000);
