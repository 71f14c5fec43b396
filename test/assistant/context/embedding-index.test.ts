import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import {
  type ContextHarness,
  containsBytes,
  openContext,
  temporaryFolder,
  waitUntilFound,
  writeFiles,
} from "../../support/context-harness.ts";
import { Dice } from "../../support/random.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const topics = [
  ["boat", "ship", "harbour", "sail", "mast", "quay"],
  ["bread", "flour", "oven", "yeast", "dough", "crust"],
  ["guitar", "chord", "melody", "song", "drum", "tune"],
];

/** Creates files of four words of one topic each, so that words of a topic occur together. */
function topicFiles(count: number): Record<string, string> {
  const dice = new Dice(5);
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => {
      const topic = topics[at % topics.length] ?? [];
      return [`${at}.txt`, Array.from({ length: 4 }, () => dice.pick(topic)).join(" ")];
    }),
  );
}

const cosine = (a: Float32Array | undefined, b: Float32Array | undefined) =>
  Array.from(a ?? []).reduce((sum, value, at) => sum + value * (b?.[at] ?? 0), 0);

const untilHybrid = (harness: ContextHarness, query: string) =>
  vi.waitFor(
    async () => {
      const hits = await harness.find(query, { isHybrid: true, limit: 50 });
      expect(hits.map(({ mode }) => mode)).toContain("hybrid");
      return hits;
    },
    { timeout: 20_000, interval: 50 },
  );

it("learns related words from the corpus, keeps them, and forgets deleted files", async () => {
  const [folder, dir] = [temporaryFolder(), temporaryFolder()];
  const canary = "zyxwvqcanary";
  const marked = Array.from({ length: 5 }, (_, at) => [`m${at}.txt`, `${canary} flour oven`]);
  const rare = Array.from({ length: 5 }, (_, at) => [`r${at}.txt`, "anchor ship sail quay"]);
  writeFiles(folder, { ...topicFiles(360), ...Object.fromEntries([...marked, ...rare]) });
  const sources = [{ name: "notes", path: folder }];
  const first = await openContext({ dir, sources });
  const hits = await untilHybrid(first, "anchor");
  const unnamed = hits.filter(({ snippet }) => !snippet.includes("anchor"));
  expect(unnamed.length).toBeGreaterThan(0);
  for (const { snippet, parts } of unnamed) {
    expect(parts.lexical).toBeNull();
    expect(snippet).toMatch(/boat|ship|harbour|sail|mast|quay/);
  }
  const { embedder } = first.context;
  const { id } = embedder;
  expect(id).toMatch(/^lsa:[1-9]/);
  const [a, b, c] = await embedder.embed(["ship", "anchor", "dough"], new AbortController().signal);
  expect(cosine(a, b)).toBeGreaterThan(cosine(a, c) + 0.3);

  await first.context[Symbol.asyncDispose]();
  const second = await openContext({ dir, sources });
  await untilHybrid(second, "anchor");
  expect(second.context.embedder.id).toBe(id);

  // A new file is found by its meaning without learning again.
  writeFiles(folder, { "new.md": "# New\n\nzebra ship harbour" });
  await vi.waitFor(async () => {
    const found = await second.find("zebra quay", { isHybrid: true, limit: 50 });
    expect(found.find(({ title }) => title === "New")?.parts.cosine).toEqual(expect.any(Number));
  }, WAIT_OPTIONS);
  expect(containsBytes(dir, canary)).toBe(true);
  for (const [name] of marked) rmSync(join(folder, name ?? ""));
  await waitUntilFound(second, canary, []);
  await vi.waitFor(() => expect(containsBytes(dir, canary)).toBe(false), WAIT_OPTIONS);
  const [gone] = await second.context.embedder.embed([canary], new AbortController().signal);
  expect(gone?.every((value) => value === 0)).toBe(true);
});
