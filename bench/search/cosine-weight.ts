import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { LlamaEngine } from "../../src/assistant/inference/llama/llama-engine.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import type { Figure } from "../report.ts";
import { Corpus } from "./corpus.ts";
import { readManual } from "./manual.ts";
import { knownItems } from "./queries.ts";
import { formatScore, measureScore } from "./relevance.ts";

/**
 * Only the pages that answer one of the benchmark's questions are embedded, and of each page only the first sections,
 * which say what the page is about. All pages with all sections would take an embedding model more than an hour on two
 * cores.
 */
const PAGE_CHARACTERS_MAX = 1_200;
const BATCH = 64;
const WEIGHTS = [0.25, 0.4, 0.6, 0.8, 1, 1.5];

/** Measures the relevance of hybrid searches with an embedding model, for several weights of its ranking. */
export async function measureCosineWeight(modelFile: string): Promise<Figure> {
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-vectors-"));
  const engine = new LlamaEngine({
    clock: systemClock,
    logger: silentLogger,
    threads: undefined,
    cacheDir: join(dir, "cache"),
  });
  try {
    return await measureWith(engine, modelFile, dir);
  } finally {
    await engine[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureWith(engine: LlamaEngine, path: string, dir: string): Promise<Figure> {
  const never = new AbortController().signal;
  const model = await engine.load(
    {
      id: "embedder",
      path: resolve(path),
      contextTokens: undefined,
      sequences: undefined,
      memoryBytesMax: Number.MAX_SAFE_INTEGER,
      cores: { hold: async () => {}, release: () => {}, onContest: () => () => {} },
    },
    never,
  );
  const embed = async (texts: readonly string[]) =>
    (await model.embed(texts, { priority: "background" }, never)).vectors;
  const answers = new Set(knownItems.flatMap((item) => item.pages));
  const manual = readManual().filter(({ name }) => answers.has(name));
  const pages = manual.map(({ name, document }) => {
    let left = PAGE_CHARACTERS_MAX;
    const sections = document.sections.flatMap(({ heading, text }) => {
      const kept = text.slice(0, Math.max(0, left));
      left -= kept.length;
      return kept === "" ? [] : [{ heading, text: kept }];
    });
    return { name, document: { ...document, sections } };
  });
  const names = new Set(pages.map(({ name }) => name));
  const items = knownItems.filter((item) => item.pages.every((page) => names.has(page)));
  const corpus = new Corpus(join(dir, "corpus"), pages);
  const space = corpus.createSpace(model.facts.embeddingLength);
  await embedAll(space, embed);
  const queries = items.map(({ query }) => query);
  const embedded = await embed(queries);
  const vectors = new Map(queries.map((query, at) => [query, embedded[at]]));
  const toVector = (query: string) => {
    const vector = vectors.get(query);
    return vector && { vector, index: space.index };
  };
  const lexical = measureScore(corpus, items, {});
  const scores = WEIGHTS.map((cosineWeight) => ({
    cosineWeight,
    score: measureScore(corpus, items, { cosineWeight }, toVector),
  }));
  const { passages } = corpus;
  corpus.close();
  const best = scores.reduce((one, other) => (other.score.chosen > one.score.chosen ? other : one));
  return {
    name: `search: nDCG@10, hybrid, weight ${best.cosineWeight}, ${items.length} queries`,
    value: best.score.all.toFixed(3),
    floor: `${lexical.all.toFixed(3)} (lexical)`,
    ratio: (best.score.all / lexical.all).toFixed(2),
    aim: "more than lexical",
    isMet: best.score.heldOut > lexical.heldOut,
    notes: [
      `${pages.length} pages, ${passages} passages of their first ${PAGE_CHARACTERS_MAX} characters`,
      `${"lexical".padEnd(20)} ${formatScore(lexical)}`,
      ...scores.map(
        ({ cosineWeight, score }) => `${`weight ${cosineWeight}`.padEnd(20)} ${formatScore(score)}`,
      ),
    ],
  };
}

async function embedAll(
  space: ReturnType<Corpus["createSpace"]>,
  embed: (texts: readonly string[]) => Promise<readonly Float32Array[]>,
): Promise<void> {
  for (;;) {
    const search = space.findUnembedded(BATCH);
    let step = search.next();
    while (step.done !== true) step = search.next();
    if (step.value.length === 0) return;
    const vectors = await embed(step.value.map(({ text }) => text));
    for (const [at, { id, source }] of step.value.entries()) {
      const vector = vectors[at];
      if (vector) space.add(id, source, vector);
    }
  }
}
