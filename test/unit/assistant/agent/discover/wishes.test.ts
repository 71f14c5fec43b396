import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ToolDiscovery } from "../../../../../src/assistant/agent/discover/tool-discovery.ts";
import { parseBuiltInManifest } from "../../../../../src/assistant/agent/manifests/parse-manifest.ts";
import { berthAppsManifest } from "../../../../../src/base/berth-tool-manifest.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { splitWords } from "../../../../../src/base/tokenize.ts";
import { FakeRegistry } from "../../../../support/agent-harness.ts";
import { corpusApps, corpusWishes } from "../../../../support/discover-corpus.ts";
import { measureDiscovery, withoutSearchTexts } from "../../../../support/measure-discovery.ts";
import { noArguments } from "../../../../support/tool-manifests.ts";
import { TrigramEmbedder } from "../../../../support/trigram-embedder.ts";

const examples = join(import.meta.dirname, "../../../../../examples");
const exampleApps = [
  berthAppsManifest,
  ...["notes-app/org.example.Notes", "python-app/org.example.Tasks"].map((name): object =>
    JSON.parse(readFileSync(join(examples, `${name}.json`), "utf8")),
  ),
].map(parseBuiltInManifest);

/** The words of the users' sentences in the corpus, the most frequent ones first. */
function listWords(): readonly string[] {
  const counts = new Map<string, number>();
  for (const { query } of corpusWishes()) {
    for (const word of splitWords(query.toLowerCase()))
      counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].toSorted((a, b) => b[1] - a[1]).map(([word]) => word);
}

/** Joins words to texts of at most `charsMax` characters. */
function joinWords(words: readonly string[], charsMax: number, textsMax: number) {
  const texts = [""];
  for (const word of words) {
    const last = texts.at(-1) ?? "";
    if (last.length + word.length < charsMax) texts[texts.length - 1] = `${last} ${word}`.trim();
    else if (texts.push(word) > textsMax) break;
  }
  return texts.slice(0, textsMax);
}

/** Returns an app whose tools contain as many words of these sentences as a manifest allows. */
function greedyApp(tools: number) {
  const words = listWords();
  return parseBuiltInManifest({
    svc_manifest: 1,
    app_id: "org.example.Greedy",
    name: joinWords(words, 100, 1)[0],
    mcp: { transport: "unix" },
    tools: Array.from({ length: tools }, (_, index) => ({
      name: `tool-${index}`,
      title: joinWords(words, 100, 1)[0],
      tier: "read",
      description: joinWords(words, 8_000, 1)[0],
      keywords: joinWords(words, 40, 20),
      examples: joinWords(words, 120, 10),
      input_schema: noArguments,
    })),
  });
}

const percent = (share: number) => Math.round(share * 1_000) / 10;

describe("tool discovery without an embedding model", () => {
  it("ranks a right tool among the first four for 90 % of the held-out sentences, and never a destructive tool first for a user who only asks to see something", async () => {
    const { chosen, heldOut, queries } = await measureDiscovery();
    expect(percent(heldOut.amongFourShare)).toBeGreaterThanOrEqual(90);
    expect(percent(chosen.amongFourShare)).toBeGreaterThanOrEqual(95);
    expect(heldOut.destructiveFirst + chosen.destructiveFirst).toBe(0);
    expect(queries.ndcgAt10).toBeGreaterThan(0.94);
  });

  it.each([
    ["write something down", ["create_note"]],
    ["take a note", ["create_note"]],
    ["which apps are running", ["list_apps"]],
    ["what is broken in my app", ["describe_app", "app_logs"]],
    ["remind me to buy milk", ["add_task"]],
  ])('finds a tool of Berth or of an example app for the sentence "%s"', async (wish, wanted) => {
    const registry = new FakeRegistry(exampleApps);
    await using discovery = new ToolDiscovery({
      registry,
      clock: systemClock,
      logger: silentLogger,
    });
    const [first] = await discovery.discover(wish, new AbortController().signal);
    expect(wanted).toContain(first?.name);
  });

  it("is much better than chance for apps that declare neither keywords nor examples", async () => {
    const { chosen, queries } = await measureDiscovery({ apps: withoutSearchTexts(corpusApps()) });
    expect(percent(chosen.amongFourShare)).toBeGreaterThanOrEqual(80);
    expect(chosen.destructiveFirst).toBe(0);
    expect(queries.ndcgAt10).toBeGreaterThan(0.86);
  });

  it.each([1, 30])(
    "rarely prefers an app that declares all words of the sentences, in %d tools",
    async (count) => {
      const honest = await measureDiscovery();
      const apps = [...corpusApps(), greedyApp(count)];
      const measured = await measureDiscovery({ apps, untrusted: "org.example.Greedy" });
      expect(percent(measured.chosen.untrustedFirstShare)).toBeLessThan(5);
      expect(percent(honest.chosen.amongFourShare - measured.chosen.amongFourShare)).toBeLessThan(
        6,
      );
    },
  );
});

describe("tool discovery with an embedder that only compares letters", () => {
  it("finds almost as many right tools as without the embedder", async () => {
    const { chosen, queries } = await measureDiscovery({ embedder: new TrigramEmbedder() });
    expect(percent(chosen.amongFourShare)).toBeGreaterThanOrEqual(95);
    expect(queries.ndcgAt10).toBeGreaterThan(0.93);
  });
});
