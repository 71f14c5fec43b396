import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { IndexedContextService } from "../../src/assistant/context/context-service.ts";
import { CHUNK_CHARACTERS, splitIntoChunks } from "../../src/assistant/context/index/text/chunk.ts";
import type { ContextEmbedder, SearchRequest } from "../../src/assistant/context/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { splitWords, tokenize } from "../../src/base/tokenize.ts";
import { type Figure, percentile, seconds } from "../report.ts";
import { readManual } from "./manual.ts";
import { knownItems } from "./queries.ts";

const PASSAGES_A_FILE = 10;
const SOURCES = ["a", "b", "c", "d"];
const ROUNDS = 1;
const DIMENSIONS = 128;

/** An embedder without a model: each term of a text adds 1 to the dimension that its hash selects. */
const hashEmbedder: ContextEmbedder = {
  id: "hash",
  dimensions: DIMENSIONS,
  embed: (texts) =>
    Promise.resolve(
      texts.map((text) => {
        const vector = new Float32Array(DIMENSIONS);
        for (const term of tokenize(text)) {
          let hash = 0;
          for (const character of term)
            hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0;
          vector[hash % DIMENSIONS] = (vector[hash % DIMENSIONS] ?? 0) + 1;
        }
        const length = Math.hypot(...vector) || 1;
        return vector.map((value) => value / length);
      }),
    ),
};

/**
 * Compares searches through the context service and its worker thread with two baselines without Berth: a bare SQLite
 * query, and a bare loop over vectors.
 */
export async function measureSpeed(dir: string, passages: number): Promise<Figure[]> {
  writeCorpus(dir, passages);
  const began = performance.now();
  await using context = new IndexedContextService({
    dir: join(dir, "state"),
    sources: SOURCES.map((name) => ({ name, path: join(dir, name) })),
    embedder: hashEmbedder,
    memory: {
      get: () => Promise.resolve(""),
      set: () => Promise.resolve(),
      list: () => Promise.resolve(new Map()),
      apps: () => Promise.resolve([]),
      wipe: () => Promise.resolve(),
    },
    ledger: { append: () => Promise.resolve({ seq: 0, leaf: "" }) },
    clock: systemClock,
    logger: silentLogger,
  });
  await until(() => context.indexState().state === "ready");
  const indexedMs = performance.now() - began;
  const { chunks } = context.indexState();
  const whileEmbedding = await timed(context, {});
  await untilEmbedded(join(dir, "state/context.db"), chunks);
  const embeddedMs = performance.now() - began - indexedMs;
  const [bare, loop] = [bareQueries(join(dir, "state/context.db")), bareLoop(chunks)];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const lexical = await timed(context, {});
  delay.disable();
  const hybrid = await timed(context, { isHybrid: true });
  const scoped = await timed(context, { scopes: ["b"] });
  const figure = (
    what: string,
    took: readonly number[],
    floor: readonly number[],
    isOf: string,
    aim: number,
  ): Figure => {
    const ratio = percentile(took, 0.95) / percentile(floor, 0.95);
    return {
      name: `search: ${what}, ${chunks} passages`,
      value: `p50 ${ms(took, 0.5)}, p95 ${ms(took, 0.95)}`,
      floor: `p50 ${ms(floor, 0.5)}, p95 ${ms(floor, 0.95)} (${isOf})`,
      ratio: `${ratio.toFixed(2)}x`,
      aim: `< ${aim}x`,
      isMet: ratio < aim,
    };
  };
  const both = bare.map((took, at) => took + (loop[at % loop.length] ?? 0));
  return [
    {
      ...figure("lexical", lexical, bare, "bare FTS5 query", 1.2),
      notes: [
        `indexed in ${seconds(indexedMs)} (${(chunks / (indexedMs / 1_000)).toFixed(0)} passages/s), embedded in ${seconds(embeddedMs)}`,
        `while it embeds: p50 ${ms(whileEmbedding, 0.5)}, p95 ${ms(whileEmbedding, 0.95)}`,
        `the event loop of the daemon was blocked for ${(delay.max / 1e6).toFixed(1)} ms at most`,
      ],
    },
    figure("hybrid", hybrid, both, "the same and a bare loop over the vectors", 1.5),
    figure("scoped, a quarter of them", scoped, bare, "bare FTS5 query over all", 1.2),
  ];
}

const ms = (values: readonly number[], share: number) =>
  `${percentile(values, share).toFixed(1)} ms`;

async function timed(
  context: IndexedContextService,
  options: Partial<SearchRequest>,
): Promise<number[]> {
  const took: number[] = [];
  const caller = { connection: ":1.1", pid: 1, app: undefined };
  for (let round = 0; round < ROUNDS; round += 1)
    for (const { query } of knownItems) {
      const start = performance.now();
      const request = { query, limit: 10, isHybrid: false, scopes: undefined, ...options };
      await context.search(request, caller, new AbortController().signal);
      took.push(performance.now() - start);
    }
  return took;
}

/**
 * Measures the times of SQLite queries without Berth's search code, in milliseconds. Each full-text query searches for
 * any of the words of one query in `knownItems`.
 */
function bareQueries(file: string): number[] {
  const db = new Database(file, { readonly: true });
  db.pragma("cache_size = -65536");
  const find = db.prepare(
    "SELECT rowid FROM passage_words WHERE passage_words MATCH ? ORDER BY rank LIMIT 10",
  );
  const took: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    for (const { query } of knownItems) {
      const start = performance.now();
      find.all(
        splitWords(query)
          .map((word) => `"${word}"`)
          .join(" OR "),
      );
      took.push(performance.now() - start);
    }
  db.close();
  return took;
}

/** Measures how many milliseconds the dot products of one query vector with `count` vectors take, in 50 runs. */
function bareLoop(count: number): number[] {
  const d = DIMENSIONS;
  const vectors = new Float32Array(count * d).map((_, at) => Math.sin(at));
  const query = vectors.slice(0, d);
  let best = 0;
  return Array.from({ length: 50 }, () => {
    const start = performance.now();
    for (let row = 0; row < count; row += 1) {
      let sum = 0;
      for (let k = 0; k < d; k += 1) sum += (query[k] ?? 0) * (vectors[row * d + k] ?? 0);
      if (sum > best) best = sum;
    }
    return performance.now() - start;
  });
}

/** Writes the files to index: random passages of Debian's manual pages, so that words have realistic frequencies. */
function writeCorpus(dir: string, passages: number): void {
  const texts = readManual().flatMap(({ document }) =>
    splitIntoChunks(document, CHUNK_CHARACTERS).map(({ text }) => text.replaceAll(/\s+/g, " ")),
  );
  let state = 1;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return texts[state % texts.length] ?? "";
  };
  for (const source of SOURCES) mkdirSync(join(dir, source), { recursive: true });
  mkdirSync(join(dir, "state"));
  for (let file = 0; file * PASSAGES_A_FILE < passages; file += 1) {
    const paragraphs = Array.from({ length: PASSAGES_A_FILE }, () => {
      const text = `${next().slice(0, 290)} ${next().slice(0, 290)}`;
      return text.padEnd(520, ".").slice(0, CHUNK_CHARACTERS - 1);
    });
    const source = SOURCES[file % SOURCES.length] ?? "a";
    writeFileSync(join(dir, source, `${file}.txt`), paragraphs.join("\n\n"));
  }
}

async function untilEmbedded(file: string, passages: number): Promise<void> {
  const db = new Database(file, { readonly: true });
  const count = db.prepare<[], number>("SELECT count(*) FROM vector").pluck();
  await until(() => count.get() === passages);
  db.close();
}

async function until(isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + 900_000; !isSo(); ) {
    if (performance.now() > end) throw new Error("the index was not ready in 15 minutes");
    await sleep(50);
  }
}
