import { expect, it, vi } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import { openContext, writeFiles } from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

/**
 * An embedder that gives texts about ships and vessels the same vector, and rejects texts with "endless" as too
 * long.
 */
class Embedder {
  readonly id = "model:ships:2";
  readonly dimensions = 2;
  readonly asked: string[] = [];

  embed(texts: readonly string[]): Promise<Float32Array[]> {
    this.asked.push(...texts);
    if (texts.some((text) => text.includes("endless")))
      return Promise.reject(new AssistantError("context_length_exceeded", "the text is too long"));
    return Promise.resolve(
      texts.map((text) => Float32Array.from(/ship|vessel/.test(text) ? [1, 0] : [0, 1])),
    );
  }
}

function createFleetFolder(): string {
  const folder = temporaryFolder("context");
  writeFiles(folder, {
    "a.md": "# Fleet\n\nour ships are old",
    "b.md": "# Novel\n\nendless words",
    "c.md": "# Lunch\n\nthe soup is hot",
  });
  return folder;
}

const searchMode = async (harness: Awaited<ReturnType<typeof openContext>>, query: string) =>
  (await harness.find(query, { isHybrid: true })).map(({ title, mode }) => `${title} ${mode}`);

it("a search is lexical until the embedding model is available; stored vectors are reused, and a text that is too long is tried only once", async () => {
  const dir = temporaryFolder("context");
  const sources = [{ name: "notes", path: createFleetFolder() }];
  const first = await openContext({ dir, sources, embedder: "awaited" });
  expect(await searchMode(first, "ships")).toEqual(["Fleet lexical"]);
  expect(await searchMode(first, "vessel")).toEqual([]);
  const embedder = new Embedder();
  first.context.setEmbedder(embedder);
  await vi.waitFor(
    async () => expect(await searchMode(first, "vessel")).toEqual(["Fleet hybrid"]),
    WAIT_OPTIONS,
  );
  expect(first.context.embedder.id).toBe(embedder.id);
  const asked = embedder.asked.filter((text) => text.includes("endless")).length;
  writeFiles(sources[0]?.path ?? "", { "d.md": "# More\n\nanother ship" });
  await vi.waitFor(
    async () => expect(await searchMode(first, "vessel")).toHaveLength(2),
    WAIT_OPTIONS,
  );
  expect(embedder.asked.filter((text) => text.includes("endless"))).toHaveLength(asked);
  await first.context[Symbol.asyncDispose]();

  const without = await openContext({ dir, sources, embedder: "awaited" });
  expect(await searchMode(without, "soup")).toEqual(["Lunch lexical"]);
  await without.context[Symbol.asyncDispose]();

  const again = new Embedder();
  const last = await openContext({ dir, sources, embedder: "awaited" });
  last.context.setEmbedder(again);
  await vi.waitFor(
    async () => expect(await searchMode(last, "vessel")).toHaveLength(2),
    WAIT_OPTIONS,
  );
  expect(again.asked.filter((text) => text !== "vessel")).toEqual([]);
});

it("scopes also apply to hits that only the embeddings find", async () => {
  const [seen, hidden] = [temporaryFolder("context"), temporaryFolder("context")];
  writeFiles(seen, { "a.md": "# Fleet\n\nour ships are old" });
  writeFiles(hidden, { "b.md": "# Other fleet\n\nour ships are new" });
  const sources = [
    { name: "seen", path: seen },
    { name: "hidden", path: hidden },
  ];
  const harness = await openContext({ sources, embedder: new Embedder() });
  const titles = async (scopes?: readonly string[]) =>
    (await harness.find("vessel", { isHybrid: true, scopes })).map(({ title }) => title).toSorted();
  await vi.waitFor(
    async () => expect(await titles()).toEqual(["Fleet", "Other fleet"]),
    WAIT_OPTIONS,
  );
  expect(await titles(["seen"])).toEqual(["Fleet"]);
  expect(await titles(["hidden", "else"])).toEqual(["Other fleet"]);
  expect(await titles([])).toEqual([]);
});

it("a hybrid search accepts a query of 4,096 bytes and rejects a longer one", async () => {
  const harness = await openContext({ sources: [{ name: "notes", path: createFleetFolder() }] });
  const query = `ships ${"é".repeat(2_045)}`;
  expect(Buffer.byteLength(query)).toBe(4_096);
  expect(await harness.find(query)).toHaveLength(1);
  await expect(harness.find(`${query}x`)).rejects.toMatchObject({
    code: "invalid_request",
    param: "query",
  });
});
