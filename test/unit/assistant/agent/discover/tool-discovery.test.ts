import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tokenizeQuery } from "../../../../../src/assistant/agent/discover/lexical-index.ts";
import {
  ToolDiscovery,
  type ToolDiscoveryOptions,
} from "../../../../../src/assistant/agent/discover/tool-discovery.ts";
import { parseBuiltInManifest } from "../../../../../src/assistant/agent/manifests/parse-manifest.ts";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type { ContextEmbedder } from "../../../../../src/assistant/context/port.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { FakeRegistry } from "../../../../support/agent-harness.ts";
import { corpusApps, corpusQueries, corpusWishes } from "../../../../support/discover-corpus.ts";
import { SettableClock } from "../../../../support/ledger-fixtures.ts";
import { notesManifest } from "../../../../support/tool-manifests.ts";
import { relevanceOf } from "../../../../support/tool-relevance.ts";
import { TrigramEmbedder } from "../../../../support/trigram-embedder.ts";

const { signal } = new AbortController();

function discovery(
  embedder?: ContextEmbedder,
  options: Partial<
    Pick<ToolDiscoveryOptions, "registry" | "deadlineMs" | "isDisabled" | "clock">
  > = {},
): ToolDiscovery {
  return new ToolDiscovery({
    registry: new FakeRegistry(corpusApps()),
    embedder,
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
}

const namesOf = async (found: ToolDiscovery, query: string) =>
  (await found.discover(query, signal)).map(({ name }) => name);

describe("tokenizeQuery", () => {
  it("omits stop words, unless the query has no other words", () => {
    expect(tokenizeQuery("please show me the notes")).toEqual(["show", "note"]);
    expect(tokenizeQuery("what is it")).toEqual(["what", "is", "it"]);
    expect(tokenizeQuery("  ")).toEqual([]);
  });
});

describe("discover", () => {
  it("returns tool records with scores, the best first", async () => {
    const records = await discovery().discover("delete a note", signal);
    expect(records[0]).toEqual({
      app_id: "org.example.Notes",
      name: "notes.delete",
      tier: "destructive",
      description: "Removes a note for good.",
      undoable: false,
      score: expect.any(Number),
    });
    const scores = records.map(({ score }) => score ?? 0);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    expect(records.length).toBeLessThanOrEqual(20);
  });

  it("leaves out disabled tools, and returns the next best matches instead", async () => {
    const disabled = new Set<string>();
    const found = discovery(undefined, {
      isDisabled: (appId, tool) => disabled.has(`${appId}/${tool}`),
    });
    const all = await namesOf(found, "forecast");
    expect(all.length).toBeGreaterThan(1);
    disabled.add(`org.example.Weather/${all[0]}`);
    expect(await namesOf(found, "forecast")).toEqual(all.slice(1));
  });

  it("returns no tool that matches no term of the query", async () => {
    expect(await namesOf(discovery(), "qwertzuiop")).toEqual([]);
    expect(await namesOf(discovery(), "")).toEqual([]);
    expect(await namesOf(discovery(), "pedals")).toEqual([]);
  });

  it("finds tools by arguments, by the app, and despite a typing error", async () => {
    expect(await namesOf(discovery(), "ssid")).toEqual(["network.wifi.connect"]);
    expect((await namesOf(discovery(), "berth rollback"))[0]).toBe("rollback_app");
    for (const misspelt of ["thermostta", "termostat", "Thermotsat"])
      expect((await namesOf(discovery(), misspelt))[0]).toBe("thermostat_set");
  });

  it("orders tools with equal scores by app and name", async () => {
    const twins = ["org.example.B", "org.example.A"].map((id) =>
      parseBuiltInManifest(notesManifest({ app_id: id, name: "Twin" })),
    );
    const ranked = await Promise.all(
      [twins, twins.toReversed()].map(async (apps) => {
        const registry = new FakeRegistry(apps.toSorted((a, b) => (a.appId < b.appId ? -1 : 1)));
        const records = await discovery(undefined, { registry }).discover("create", signal);
        return records.map(({ app_id, name }) => `${app_id} ${name}`);
      }),
    );
    expect(ranked[0]).toEqual(["org.example.A notes.create", "org.example.B notes.create"]);
    expect(ranked[1]).toEqual(ranked[0]);
  });

  it("builds its index again when the registry has changed", async () => {
    const registry = new FakeRegistry([]);
    const found = discovery(undefined, { registry });
    expect(await namesOf(found, "note")).toEqual([]);
    registry.set(corpusApps());
    registry.version -= 1;
    expect(await namesOf(found, "note")).toEqual([]);
    registry.version += 1;
    expect(await namesOf(found, "note")).toContain("notes.create");
  });

  it("rejects when its signal aborts, and accepts any query text", async () => {
    await expect(discovery().discover("note", AbortSignal.abort())).rejects.toThrow("aborted");
    const found = discovery();
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary", maxLength: 300 }), async (query) => {
        expect((await found.discover(query, signal)).length).toBeLessThanOrEqual(20);
      }),
      { numRuns: 300 },
    );
  });
});

describe("discovery with an embedder", () => {
  it("also finds tools by similarity, and embeds each tool once", async () => {
    const embedder = new TrigramEmbedder();
    await using found = discovery(embedder, { deadlineMs: 10_000 });
    // The query shares letters with one tool, but no word.
    expect(await namesOf(discovery(), "hydrothermostats")).toEqual([]);
    expect((await namesOf(found, "hydrothermostats"))[0]).toBe("thermostat_set");
    const tools = corpusApps().flatMap((app) => app.tools).length;
    expect(embedder.embeddedTexts).toHaveLength(tools + 1);
    await found.discover("again", signal);
    expect(embedder.embeddedTexts).toHaveLength(tools + 2);
    embedder.id = "letters-2";
    await found.discover("other vectors", signal);
    expect(embedder.embeddedTexts).toHaveLength(2 * tools + 3);
  });

  it.each<[string, () => Promise<readonly Float32Array[]>]>([
    ["fails", () => Promise.reject(new Error("away"))],
    ["never answers", () => new Promise(() => {})],
    ["answers nonsense", () => Promise.resolve([])],
  ])("ranks by words only if the embedder %s", async (_, embed) => {
    let asked = 0;
    const embedder = {
      id: "a",
      dimensions: 2,
      embed: () => {
        asked += 1;
        return embed();
      },
    };
    await using found = discovery(embedder, { deadlineMs: 20 });
    const lexical = await namesOf(discovery(), "write a note");
    expect(await namesOf(found, "write a note")).toEqual(lexical);
    expect(await namesOf(found, "write a note")).toEqual(lexical);
    expect(asked).toBeGreaterThan(0);
  });
});

describe("the state of discover", () => {
  const tools = corpusApps().flatMap((app) => app.tools).length;

  it("reports that only words count without an embedder, and while its model is not available", async () => {
    const wordsOnly = { v: 1, tools, vectors: null };
    expect(discovery().state()).toEqual(wordsOnly);
    const absent = { id: "none", dimensions: 0, embed: () => Promise.reject(new Error("absent")) };
    await using found = discovery(absent);
    await found.discover("note", signal);
    expect(found.state()).toEqual(wordsOnly);
  });

  it("reports the model, how many tools have a vector, the weight and the time limit", async () => {
    await using found = discovery(Object.assign(new TrigramEmbedder(), { name: "letters" }), {
      deadlineMs: 10_000,
    });
    const vectors = { model: "letters", weight: 0.3, timeout_ms: 10_000, message: null };
    expect(found.state()).toEqual({ v: 1, tools, vectors: { ...vectors, embedded: 0 } });
    await found.discover("note", signal);
    expect(found.state()).toEqual({ v: 1, tools, vectors: { ...vectors, embedded: tools } });
  });

  it("gives the reason why the last query compared words only, until a query compares vectors", async () => {
    const trigrams = new TrigramEmbedder();
    const answers = {
      fails: () => Promise.reject(new AssistantError("timeout", "the model is busy")),
      "never answers": () => new Promise<readonly Float32Array[]>(() => {}),
      embeds: (texts: readonly string[]) => trigrams.embed(texts),
    };
    let behaviour: keyof typeof answers = "fails";
    const embedder: ContextEmbedder = {
      id: "letters",
      dimensions: 512,
      embed: (texts) => answers[behaviour](texts),
    };
    const clock = new SettableClock();
    await using found = discovery(embedder, { deadlineMs: 20, clock });
    const explain = async (next: keyof typeof answers): Promise<string | null | undefined> => {
      behaviour = next;
      clock.offsetMs += 60_000;
      await found.discover("note", signal);
      return found.state().vectors?.message;
    };
    expect(await explain("fails")).toBe(
      "the embedding model letters does not answer: the model is busy",
    );
    expect(await explain("embeds")).toBeNull();
    expect(await explain("never answers")).toBe(
      "the embedding model letters did not embed a query within 20 ms",
    );
    expect(await explain("fails")).toContain("the model is busy");
    await using slow = discovery(
      { ...embedder, embed: answers["never answers"] },
      { deadlineMs: 20 },
    );
    await slow.discover("note", signal);
    expect(slow.state().vectors?.message).toBe(
      "the embedding model letters has not embedded all tools yet",
    );
  });
});

describe("the relevance of tool discovery", () => {
  it("is computed correctly from given ranks", () => {
    const wanted = ["a", "b"];
    expect(relevanceOf([{ wanted, ranked: ["a", "b", "c"] }])).toEqual({
      ndcgAt10: 1,
      recallAt1: 1,
      recallAt5: 1,
    });
    const swapped = relevanceOf([{ wanted, ranked: ["b", "a"] }]);
    expect(swapped.ndcgAt10).toBeCloseTo((1 + 3 / Math.log2(3)) / (3 + 1 / Math.log2(3)), 10);
    expect(swapped.recallAt1).toBe(0);
    expect(relevanceOf([{ wanted, ranked: [] }]).ndcgAt10).toBe(0);
  });

  it("is measured with at least 80 tools, 12 apps and 150 wishes, a third of which is held out", () => {
    const wishes = corpusWishes();
    const tools = corpusApps().flatMap((app) => app.tools);
    expect(corpusApps().length).toBeGreaterThanOrEqual(12);
    expect(tools.length).toBeGreaterThanOrEqual(80);
    expect(wishes.length).toBeGreaterThanOrEqual(150);
    expect(wishes.filter(({ isHeldOut }) => isHeldOut).length / wishes.length).toBeCloseTo(
      1 / 3,
      1,
    );
    // A misspelt name in the corpus would be a tool that no ranking can find.
    const names = new Set(tools.map(({ name }) => name));
    expect(names.size).toBe(tools.length);
    const wanted = [...wishes, ...corpusQueries()].flatMap((labelled) => labelled.wanted);
    expect(wanted.filter((name) => !names.has(name))).toEqual([]);
  });
});
