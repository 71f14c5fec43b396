import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { RankedItem } from "../../../base/rank-fusion.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import type { ContextEmbedder } from "../../context/port.ts";
import type { DiscoverState, ToolRecord, ToolVectorState } from "../port.ts";
import type { ToolRegistry } from "../tool-manifest.ts";
import { describeFailure, getModelName } from "./embedder-failure.ts";
import { LexicalIndex, QUERY_CHARS_MAX } from "./lexical-index.ts";
import { detectIntent, type RequestIntent, tierFactors } from "./request-intent.ts";
import { keepDestructiveBehind, limitEachApp, type RankedTool } from "./result-order.ts";
import { type SearchableTool, toSearchableTools } from "./searchable-tool.ts";
import { byScore, fuseScores, rankByCosine, SEMANTIC_WEIGHT } from "./semantic-ranking.ts";
import { ToolVectors } from "./tool-vectors.ts";

const RESULTS_MAX = 20;
/**
 * The longest time in milliseconds that a query waits for the embedder. A program waits for the tools, and the lexical
 * ranking alone is already good.
 */
const EMBEDDER_DEADLINE_MS = 400;
/** The number of decimals to which a score is rounded. */
const SCORE_DIGITS = 4;

export interface ToolDiscoveryOptions {
  readonly registry: ToolRegistry;
  /** The embedder for the semantic ranking; undefined if tools are ranked lexically only. */
  readonly embedder?: ContextEmbedder | undefined;
  /** Returns true if the user has disabled the tool; called again for each request. By default no tool is disabled. */
  readonly isDisabled?: (appId: string, tool: string) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The longest time that a request waits for the embedder, in milliseconds. */
  readonly deadlineMs?: number;
}

/** Ranks the tools of the registry for a request in plain words. */
export class ToolDiscovery implements AsyncDisposable {
  readonly #registry: ToolRegistry;
  readonly #embedder: ContextEmbedder | undefined;
  readonly #vectors: ToolVectors | undefined;
  readonly #deadlineMs: number;
  readonly #isDisabled: (appId: string, tool: string) => boolean;
  /** The reason why the last query compared words only; undefined if it compared vectors, too. */
  #lexicalReason: string | undefined;
  #index:
    | {
        readonly version: number;
        readonly tools: readonly SearchableTool[];
        readonly lexical: LexicalIndex;
      }
    | undefined;

  constructor(options: ToolDiscoveryOptions) {
    const { registry, embedder, clock, logger } = options;
    this.#registry = registry;
    this.#embedder = embedder;
    this.#vectors = embedder && new ToolVectors({ embedder, clock, logger });
    this.#isDisabled = options.isDisabled ?? (() => false);
    this.#deadlineMs = options.deadlineMs ?? EMBEDDER_DEADLINE_MS;
  }

  /**
   * Returns at most 20 tools that match the query and are not disabled, best first. If the embedder fails or is slow,
   * the ranking is lexical. Rejects only when `signal` aborts.
   */
  async discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]> {
    signal.throwIfAborted();
    const { tools, lexical } = this.#currentIndex();
    const intent = detectIntent(query);
    const byTerms = preferTiers(lexical.rank(query), tools, intent);
    const byCosine = preferTiers(await this.#rankSemantically(query, tools, signal), tools, intent);
    signal.throwIfAborted();
    const ranked = byCosine.length === 0 ? byTerms : fuseScores(byTerms, byCosine);
    const allowed = ranked.flatMap(({ id, score }) => {
      const found = tools[id];
      return found && !this.#isDisabled(found.app.appId, found.tool.name)
        ? [{ ...found, score }]
        : [];
    });
    const ordered = intent === "look" ? keepDestructiveBehind(allowed) : allowed;
    return limitEachApp(ordered, RESULTS_MAX).map(toToolRecord);
  }

  state(): DiscoverState {
    const { tools } = this.#currentIndex();
    return { v: 1, tools: tools.length, vectors: this.#describeVectors(tools) };
  }

  #describeVectors(tools: readonly SearchableTool[]): ToolVectorState | null {
    if (!this.#embedder || !this.#vectors || this.#embedder.dimensions === 0) return null;
    return {
      model: getModelName(this.#embedder),
      embedded: this.#vectors.count(tools),
      weight: SEMANTIC_WEIGHT,
      timeout_ms: this.#deadlineMs,
      message: this.#lexicalReason ?? null,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#vectors?.[Symbol.asyncDispose]();
  }

  #currentIndex() {
    const { version } = this.#registry;
    if (this.#index?.version !== version) {
      const tools = toSearchableTools(this.#registry.apps());
      this.#index = { version, tools, lexical: new LexicalIndex(tools) };
    }
    return this.#index;
  }

  /**
   * Ranks the tools by the cosine of their vectors and the query's vector. Returns no tools if there is no embedder or
   * it does not answer in time.
   */
  async #rankSemantically(
    query: string,
    tools: readonly SearchableTool[],
    signal: AbortSignal,
  ): Promise<readonly RankedItem[]> {
    if (!this.#embedder || !this.#vectors || tools.length === 0 || query.trim() === "") return [];
    using limit = createTimeLimit(signal, this.#deadlineMs);
    try {
      const vectors = await this.#vectors.getVectors(tools, limit.signal);
      if (!vectors) {
        this.#lexicalReason = this.#vectors.explainMissing();
        return [];
      }
      const asked = query.slice(0, QUERY_CHARS_MAX);
      const embedded = this.#embedder.embed([asked], limit.signal);
      const [vector] = await raceWithAbort(embedded, limit.signal);
      this.#lexicalReason = undefined;
      return vector ? rankByCosine(vector, vectors) : [];
    } catch (error) {
      // If the embedding of the query or of the tools fails or takes too long, discovery uses only the lexical ranking.
      this.#lexicalReason = limit.signal.aborted
        ? `the embedding model ${getModelName(this.#embedder)} did not embed a query within ${this.#deadlineMs} ms`
        : describeFailure(this.#embedder, error);
      return [];
    }
  }
}

/** Multiplies the scores by the factors of the tiers, and sorts the items by the products. */
function preferTiers(
  items: readonly RankedItem[],
  tools: readonly SearchableTool[],
  intent: RequestIntent,
): readonly RankedItem[] {
  const factors = tierFactors[intent];
  return items
    .map(({ id, score }) => ({ id, score: score * factors[tools[id]?.tool.tier ?? "read"] }))
    .toSorted(byScore);
}

function toToolRecord({ app, tool, score }: RankedTool): ToolRecord {
  return {
    app_id: app.appId,
    name: tool.name,
    tier: tool.tier,
    description: tool.description,
    undoable: tool.undo !== undefined,
    score: Number(score.toFixed(SCORE_DIGITS)),
  };
}
