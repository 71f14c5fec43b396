import { ToolDiscovery } from "../../src/assistant/agent/discover/tool-discovery.ts";
import type { AppManifest } from "../../src/assistant/agent/tool-manifest.ts";
import type { ContextEmbedder } from "../../src/assistant/context/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { corpusApps, corpusQueries, corpusWishes, type Wish } from "./discover-corpus.ts";
import { type Judged, type Relevance, relevanceOf } from "./tool-relevance.ts";

/**
 * The results of tool discovery for the sentences in which users ask for something. Shares are relative to the number
 * of sentences.
 */
export interface WishFigures {
  readonly wishes: number;
  readonly firstShare: number;
  readonly amongFourShare: number;
  /**
   * The mean, over all sentences, of 1 divided by the rank of the first right tool. A sentence without a right tool
   * counts as 0.
   */
  readonly meanReciprocalRank: number;
  /** The number of sentences that only ask to see something, but for which the tool in first place is destructive. */
  readonly destructiveFirst: number;
  /** The share of the sentences for which the tool in first place belongs to the untrusted app. */
  readonly untrustedFirstShare: number;
}

export interface DiscoveryFigures {
  /** The relevance of the results for the queries with which the ranking was adjusted. */
  readonly queries: Relevance;
  /** The results for the sentences with which the ranking was adjusted. */
  readonly chosen: WishFigures;
  readonly heldOut: WishFigures;
  /** The median duration of a query in milliseconds, when the index already exists. */
  readonly queryMs: number;
}

export interface MeasureOptions {
  readonly embedder?: ContextEmbedder | undefined;
  readonly apps?: readonly AppManifest[];
  /** The id of an untrusted app. The result `untrustedFirstShare` counts how often its tools are in first place. */
  readonly untrusted?: string;
}

/** Returns the apps without the tool fields that only discovery reads. */
export function withoutSearchTexts(apps: readonly AppManifest[]): readonly AppManifest[] {
  return apps.map((app) => ({
    ...app,
    tools: app.tools.map((tool) => ({ ...tool, keywords: [], examples: [] })),
  }));
}

/**
 * Measures the ranking for every labelled query and every sentence of a user in test/fixtures/discover, for tests and
 * the benchmark.
 */
export async function measureDiscovery(options: MeasureOptions = {}): Promise<DiscoveryFigures> {
  const apps = options.apps ?? corpusApps();
  const registry = {
    version: 1,
    apps: () => apps,
    find: () => undefined,
    subscribe: () => () => {},
  };
  await using discovery = new ToolDiscovery({
    registry,
    embedder: options.embedder,
    clock: systemClock,
    logger: silentLogger,
    deadlineMs: 60_000,
  });
  const { signal } = new AbortController();
  await discovery.discover("warm up", signal);
  const times: number[] = [];
  const rank = async (query: string) => {
    const startedAt = performance.now();
    const records = await discovery.discover(query, signal);
    times.push(performance.now() - startedAt);
    return records;
  };
  const judged: Judged[] = [];
  for (const { query, wanted } of corpusQueries())
    judged.push({ wanted, ranked: (await rank(query)).map(({ name }) => name) });
  const granted: GrantedWish[] = [];
  for (const wish of corpusWishes()) {
    const records = await rank(wish.query);
    granted.push({
      wish,
      place: records.findIndex(({ name }) => wish.wanted.includes(name)),
      isDestructiveFirst: records[0]?.tier === "destructive",
      isUntrustedFirst: records[0] !== undefined && records[0].app_id === options.untrusted,
    });
  }
  return {
    queries: relevanceOf(judged),
    chosen: summarize(granted.filter(({ wish }) => !wish.isHeldOut)),
    heldOut: summarize(granted.filter(({ wish }) => wish.isHeldOut)),
    queryMs: times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0,
  };
}

interface GrantedWish {
  readonly wish: Wish;
  /** The place of the first right tool, counted from 0; -1 if none was found. */
  readonly place: number;
  readonly isDestructiveFirst: boolean;
  readonly isUntrustedFirst: boolean;
}

function summarize(granted: readonly GrantedWish[]): WishFigures {
  const share = (holds: (one: GrantedWish) => boolean) =>
    granted.filter(holds).length / Math.max(granted.length, 1);
  const reciprocals = granted.map(({ place }) => (place < 0 ? 0 : 1 / (place + 1)));
  return {
    wishes: granted.length,
    firstShare: share(({ place }) => place === 0),
    amongFourShare: share(({ place }) => place >= 0 && place < 4),
    meanReciprocalRank:
      reciprocals.reduce((sum, one) => sum + one, 0) / Math.max(granted.length, 1),
    destructiveFirst: granted.filter(
      ({ wish, isDestructiveFirst }) => wish.isLook && isDestructiveFirst,
    ).length,
    untrustedFirstShare: share(({ isUntrustedFirst }) => isUntrustedFirst),
  };
}
