import { describe, expect, it, vi } from "vitest";
import type { ContextEmbedder } from "../../../src/assistant/context/port.ts";
import {
  openContext,
  sandboxedCaller,
  unconfinedCaller,
  writeFiles,
} from "../../support/context-harness.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

async function notes(files: Record<string, string | Uint8Array>, scope?: string) {
  const folder = temporaryFolder("context");
  writeFiles(folder, files);
  return openContext({ sources: [{ name: "notes", path: folder, scope }] });
}

/** Counts the searches that are rejected. */
const countRejected = async (searches: readonly Promise<unknown>[]) => {
  const ended = await Promise.allSettled(searches);
  return ended.filter(({ status }) => status === "rejected").length;
};

describe("a search", () => {
  it("finds passages by any of their words, the best first", async () => {
    const harness = await notes({
      "harbour.md": "# Harbour\n\nThe ferry leaves the pier at nine.",
      "garden.md": "# Garden\n\nTomatoes want water, and the pier is not there.",
      "tax.txt": "Receipts, 2025.",
    });
    const hits = await harness.find("when does the ferry leave from the pier");
    expect(hits.map(({ title }) => title)).toEqual(["Harbour", "Garden"]);
    expect(hits[0]).toMatchObject({
      source: "notes",
      provenance: "file:notes",
      snippet: "The ferry leaves the pier at nine.",
      mode: "lexical",
      parts: { lexical: 1, cosine: null },
    });
    expect(hits[0]?.uri).toMatch(/^file:\/\/\/.*\/harbour\.md$/);
    expect(hits[0]?.score).toBeGreaterThan(hits[1]?.score ?? 0);
    // Without stop words, the query has three words: the first passage contains all of them, the second only `pier`.
    expect(hits.map(({ coverage }) => coverage)).toEqual([1, expect.closeTo(0.3, 1)]);
  });

  it("gives a word in the title more weight than a word in the text", async () => {
    const harness = await notes({
      "a.md": "# Kettle\n\nSome words that say nothing.",
      "b.md": "# Other\n\nSome words about a kettle here.",
    });
    expect((await harness.find("kettle")).map(({ title }) => title)).toEqual(["Kettle", "Other"]);
  });

  it("returns at most `limit` hits, and one passage of each document first", async () => {
    const long = Array.from(
      { length: 30 },
      (_, at) => `## Part ${at}\n\nwalrus ${"x ".repeat(200)}`,
    );
    const harness = await notes({
      "long.md": long.join("\n\n"),
      "short.md": "# Short\n\nA walrus and much else besides.",
    });
    const hits = await harness.find("walrus", { limit: 3 });
    expect(hits).toHaveLength(3);
    expect(new Set(hits.map(({ uri }) => uri)).size).toBe(2);
  });

  it("treats operators of FTS5 in a query as words", async () => {
    const harness = await notes({ "harbour.md": "# Harbour\n\nThe ferry leaves." });
    const hostile = [
      '"',
      "a AND",
      "NEAR(ferry pier)",
      "title:ferry",
      "ferry*",
      "^ferry",
      "-ferry",
      "ferry OR",
      "(",
      "{title}: x",
      "ferry' OR 1=1 --",
      '"ferry" "',
      "ferry + pier",
      "\u0000ferry",
      "\ud800 ferry",
      "passage_words MATCH 'x'",
      "🚢",
      "%_",
      "fer*",
      "AND",
      "NOT ferry",
    ];
    const isWord = /(?<!\p{L})ferry(?!\p{L})/u;
    for (const query of hostile)
      expect([query, (await harness.find(query)).length]).toEqual([
        query,
        isWord.test(query) ? 1 : 0,
      ]);
  });

  it("finds parts of texts without spaces, of camel-case names, and of file names", async () => {
    const harness = await notes({
      "travel.md": "# 旅行\n\n来週は京都と大阪に行きます。",
      "http.ts": "export function parseHttpHeader(line: string) {}",
      "dentist-appointment.txt": "Thursday at four.",
      "thai.txt": "ฉันชอบกินข้าวผัด",
    });
    expect((await harness.find("大阪")).map(({ title }) => title)).toEqual(["旅行"]);
    expect((await harness.find("header")).map(({ title }) => title)).toEqual(["http.ts"]);
    expect(await harness.find("dentist")).toHaveLength(1);
    expect(await harness.find("ข้าวผัด")).toHaveLength(1);
    expect(await harness.find("東京")).toEqual([]);
  });

  it("finds other forms of a word, and words without their accents", async () => {
    const harness = await notes({ "a.txt": "Connections to the café were dropped." });
    expect(await harness.find("connection")).toHaveLength(1);
    expect(await harness.find("cafe")).toHaveLength(1);
    expect(await harness.find("CAFÉ")).toHaveLength(1);
  });

  it("rejects a request that exceeds a limit, without an entry in the ledger", async () => {
    const harness = await notes({ "a.txt": "text" });
    const bad = [
      [{ limit: 0 }, "limit"],
      [{ limit: 51 }, "limit"],
      [{ limit: 1.5 }, "limit"],
      [{ query: " \n" }, "query"],
      [{ query: "ä".repeat(2_049) }, "query"],
      [{ scopes: Array.from({ length: 101 }, String) }, "scopes"],
    ] as const;
    for (const [request, param] of bad)
      await expect(harness.find("text", request)).rejects.toMatchObject({
        code: "invalid_request",
        param,
      });
    expect(harness.ledger.entries).toEqual([]);
  });

  it("accepts a query of 4,096 bytes", async () => {
    const harness = await notes({ "a.txt": "needle" });
    expect(await harness.find(`${"z ".repeat(2_044)}  needle`)).toHaveLength(1);
  });

  it("of an app is refused if too many of sandboxed apps wait, and searches of the user are accepted", async () => {
    const harness = await notes({ "harbour.md": "# Harbour\n\nThe ferry leaves at nine." });
    // No search has an answer before the ledger has written the entries of all of them.
    const asked = Array.from({ length: 100 }, (_, at) =>
      harness.find("ferry", {}, sandboxedCaller(`org.example.App${at % 3}`)),
    );
    const own = Array.from({ length: 40 }, () => harness.find("ferry"));
    // Of 100 searches of apps 96 wait, and of 128 in all 32 are the user's.
    expect(await Promise.all([countRejected(asked), countRejected(own)])).toEqual([4, 8]);
    const hits = await harness.find("ferry", {}, sandboxedCaller("org.example.App0"));
    expect(hits).toEqual([]);
  });

  it("is rejected when its signal aborts, or with `timeout` when it takes too long", async () => {
    const harness = await openContext({
      sources: [{ name: "notes", path: temporaryFolder("context") }],
      searchTimeoutMs: 50,
      embedder: { id: "never", dimensions: 3, embed: () => new Promise(() => {}) },
    });
    const request = { query: "x", limit: 1, isHybrid: true, scopes: undefined };
    const caller = new AbortController();
    const left = harness.context.search(request, unconfinedCaller, caller.signal);
    caller.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    await expect(harness.context.search(request, unconfinedCaller, caller.signal)).rejects.toThrow(
      "gone",
    );
    await expect(harness.find("x", request)).rejects.toMatchObject({ code: "timeout" });
  });
});

describe("the ledger of searches", () => {
  it("records each search before it runs, and the entry's name states the kind of search", async () => {
    const harness = await notes({ "a.txt": "text" });
    await harness.find("text");
    await harness.find("text", { isHybrid: true });
    await harness.find("text", { isHybrid: true, scopes: [] }, sandboxedCaller("org.example.App"));
    expect(harness.ledger.entries.map(({ name }) => name)).toEqual([
      "context.search",
      "context.search.hybrid",
      "context.search.scoped",
    ]);
    expect(harness.ledger.entries[2]).toEqual({
      name: "context.search.scoped",
      fields: {
        limit: 10,
        mode: "hybrid",
        scopes: [],
        caller: { app: "org.example.App", connection: ":1.2", kind: "flatpak" },
      },
      sealed: { query: "text" },
      seq: 2,
      commit: 3,
    });
  });

  it("prevents the search if the entry cannot be written", async () => {
    const harness = await notes({ "a.txt": "text" });
    harness.ledger.mode = "down";
    await expect(harness.find("text")).rejects.toMatchObject({ code: "ledger_unavailable" });
  });
});

async function twoSources() {
  const [own, other] = [temporaryFolder("context"), temporaryFolder("context")];
  writeFiles(own, { "own.md": "# Own\n\nanchor" });
  const many = Array.from({ length: 300 }, (_, at) => [
    `n${at}.md`,
    `# Other ${at}\n\nanchor anchor`,
  ]);
  writeFiles(other, Object.fromEntries(many));
  return openContext({
    sources: [
      { name: "app", path: own, scope: "app:org.example.App" },
      { name: "work", path: other },
    ],
  });
}

describe("the scopes of a search", () => {
  it("apply before the limit, so that many invisible passages do not displace visible ones", async () => {
    const harness = await twoSources();
    const titles = async (scopes: readonly string[] | undefined, caller = unconfinedCaller) =>
      (await harness.find("anchor", { scopes, limit: 50 }, caller)).map(({ source }) => source);
    expect(await titles(["app:org.example.App"])).toEqual(["app"]);
    expect(new Set(await titles(["work"]))).toEqual(new Set(["work"]));
    expect(await titles([])).toEqual([]);
    expect(await titles(["unheard-of"])).toEqual([]);
    expect(await titles(["%", "work' OR '1"])).toEqual([]);
    expect(harness.ledger.entries).toHaveLength(5);
    expect(await titles(undefined, sandboxedCaller("org.example.App"))).toEqual(["app"]);
    expect(await titles(["work"], sandboxedCaller("org.example.App"))).toEqual([]);
    expect(await titles(undefined, sandboxedCaller("org.example.Else"))).toEqual([]);
    const unit = { ...unconfinedCaller, app: { id: "org.example.Else", kind: "unit" as const } };
    expect(await titles(undefined, unit)).toHaveLength(50);
  });
});

describe("hybrid search", () => {
  /**
   * An embedder with three vectors: one for texts about boats, ships and vessels, one for texts about soup, and one for
   * all other texts.
   */
  class TopicEmbedder implements ContextEmbedder {
    readonly id = "topics";
    readonly dimensions = 3;
    isDown = false;
    embed(texts: readonly string[]) {
      if (this.isDown) return Promise.reject(new Error("no model"));
      return Promise.resolve(
        texts.map((text) => {
          if (/boat|ship|vessel/i.test(text)) return Float32Array.from([1, 0, 0]);
          return /soup/i.test(text) ? Float32Array.from([0, 1, 0]) : Float32Array.from([0, 0, 1]);
        }),
      );
    }
  }

  it("finds texts that share no word with the query, and is lexical while the embedder is down", async () => {
    const folder = temporaryFolder("context");
    writeFiles(folder, {
      "a.md": "# Fleet\n\nOur ships are old.",
      "b.md": "# Lunch\n\nThe soup is hot.",
    });
    const embedder = new TopicEmbedder();
    const harness = await openContext({ sources: [{ name: "notes", path: folder }], embedder });
    await vi.waitFor(async () => {
      const hits = await harness.find("which vessels", { isHybrid: true });
      expect(hits).toMatchObject([
        { title: "Fleet", mode: "hybrid", parts: { lexical: null, cosine: 1 } },
      ]);
    }, WAIT_OPTIONS);
    expect(await harness.find("vessels", { isHybrid: true, scopes: ["else"] })).toEqual([]);
    embedder.isDown = true;
    expect(await harness.find("vessels", { isHybrid: true })).toEqual([]);
    const [hit] = await harness.find("ships", { isHybrid: true });
    expect(hit).toMatchObject({
      title: "Fleet",
      mode: "lexical",
      parts: { lexical: 1, cosine: null },
    });
  });

  it("reports the vectors with their model, and the reason why the model does not answer", async () => {
    const folder = temporaryFolder("context");
    writeFiles(folder, { "a.md": "# Fleet\n\nOur ships are old.", "b.md": "# Lunch\n\nThe soup." });
    const embedder = new TopicEmbedder();
    const harness = await openContext({ sources: [{ name: "notes", path: folder }], embedder });
    const all = { model: "topics", embedded: 2, passages: 2, message: null };
    await vi.waitFor(() => expect(harness.context.indexState().vectors).toEqual(all), WAIT_OPTIONS);
    embedder.isDown = true;
    await harness.find("ships", { isHybrid: true });
    expect(harness.context.indexState().vectors).toEqual({
      ...all,
      message: "the embedding model topics does not answer",
    });
    embedder.isDown = false;
    await harness.find("ships", { isHybrid: true });
    expect(harness.context.indexState().vectors).toEqual(all);
  });

  it("reports an embedding model that does not embed the query in time", async () => {
    const harness = await openContext({
      sources: [{ name: "notes", path: temporaryFolder("context") }],
      queryEmbedTimeoutMs: 20,
      embedder: { id: "model:m:3", name: "m", dimensions: 3, embed: () => new Promise(() => {}) },
    });
    expect(await harness.find("x", { isHybrid: true })).toEqual([]);
    expect(harness.context.indexState().vectors).toEqual({
      model: "m",
      embedded: 0,
      passages: 0,
      message: expect.stringContaining("m did not embed a query within 20 ms"),
    });
  });

  it("reports an embedding model that is not available yet", async () => {
    const harness = await openContext({ sources: [], embedder: "awaited" });
    expect(harness.context.indexState().vectors).toMatchObject({
      model: null,
      message: "the embedding model is not available yet",
    });
  });

  it("is answered lexically if there is no embedder", async () => {
    const context = await notes({ "a.txt": "one small text" });
    const hits = await context.find("text", { isHybrid: true });
    expect(hits).toMatchObject([{ mode: "lexical", parts: { lexical: 1, cosine: null } }]);
    const { embedder } = context.context;
    await expect(embedder.embed(["x"], new AbortController().signal)).rejects.toMatchObject({
      code: "no_model",
    });
  });
});
