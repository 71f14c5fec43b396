import { ToolDiscovery } from "../../src/assistant/agent/discover/tool-discovery.ts";
import type { ContextEmbedder } from "../../src/assistant/context/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { corpusApps, corpusQueries } from "./discover-corpus.ts";
import { type Judged, type Relevance, relevanceOf } from "./tool-relevance.ts";

export interface DiscoveryFigures {
  readonly all: Relevance;
  /** The results for the half of the queries that was not used to choose the weights. */
  readonly heldOut: Relevance;
  /** The median duration of a query in milliseconds, when the index already exists. */
  readonly queryMs: number;
}

/**
 * Measures the ranking of every labelled query over the tools of test/fixtures/discover, for tests and the benchmark.
 */
export async function measureDiscovery(embedder?: ContextEmbedder): Promise<DiscoveryFigures> {
  const apps = corpusApps();
  const registry = {
    version: 1,
    apps: () => apps,
    find: () => undefined,
    subscribe: () => () => {},
  };
  await using discovery = new ToolDiscovery({
    registry,
    embedder,
    clock: systemClock,
    logger: silentLogger,
    deadlineMs: 10_000,
  });
  const { signal } = new AbortController();
  await discovery.discover("warm up", signal);
  const times: number[] = [];
  const judged: Judged[] = [];
  for (const { query, wanted } of corpusQueries()) {
    const startedAt = performance.now();
    const records = await discovery.discover(query, signal);
    times.push(performance.now() - startedAt);
    judged.push({ wanted, ranked: records.map(({ name }) => name) });
  }
  return {
    all: relevanceOf(judged),
    heldOut: relevanceOf(judged.filter((_, index) => index % 2 === 1)),
    queryMs: times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0,
  };
}
