import { untilAborted } from "../../../base/aborting.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { timeLimit } from "../../../base/time-limit.ts";
import type { ContextEmbedder } from "../../context/port.ts";
import type { ToolRegistry } from "../manifest.ts";
import type { ToolRecord } from "../port.ts";
import { LexicalIndex, type Ranked } from "./lexical-index.ts";
import { blend, semanticRank } from "./semantic-rank.ts";
import { QUERY_CHARS_MAX } from "./terms.ts";
import { type ToolText, toolTexts } from "./tool-text.ts";
import { ToolVectors } from "./tool-vectors.ts";

const FOUND_MAX = 20;
/** Somebody waits for the answer, and words alone are a good one. */
const EMBEDDER_DEADLINE_MS = 400;
/** Of scores: beyond it they are noise. */
const SCORE_DIGITS = 4;

export interface DiscoveryOptions {
  readonly registry: ToolRegistry;
  /** Undefined: by words only. */
  readonly embedder?: ContextEmbedder | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a request waits for the embedder. */
  readonly deadlineMs?: number;
}

/** Ranks the tools of the registry by what a wish in plain words is about. */
export class Discovery implements AsyncDisposable {
  readonly #registry: ToolRegistry;
  readonly #embedder: ContextEmbedder | undefined;
  readonly #vectors: ToolVectors | undefined;
  readonly #deadlineMs: number;
  #index:
    | {
        readonly version: number;
        readonly tools: readonly ToolText[];
        readonly lexical: LexicalIndex;
      }
    | undefined;

  constructor(options: DiscoveryOptions) {
    const { registry, embedder, clock, logger } = options;
    this.#registry = registry;
    this.#embedder = embedder;
    this.#vectors = embedder && new ToolVectors({ embedder, clock, logger });
    this.#deadlineMs = options.deadlineMs ?? EMBEDDER_DEADLINE_MS;
  }

  /**
   * The tools that have something of the query, best first, at most 20. An embedder that fails or is slow
   * leaves it to the words. Rejects only when `signal` aborts.
   */
  async discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]> {
    signal.throwIfAborted();
    const { tools, lexical } = this.#current();
    const byWords = lexical.rank(query);
    const byMeaning = await this.#semantic(query, tools, signal);
    signal.throwIfAborted();
    const ranked = byMeaning.length === 0 ? byWords : blend(byWords, byMeaning);
    return ranked.slice(0, FOUND_MAX).flatMap(({ index, score }) => {
      const found = tools[index];
      return found ? [recordOf(found, score)] : [];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#vectors?.[Symbol.asyncDispose]();
  }

  #current() {
    const { version } = this.#registry;
    if (this.#index?.version !== version) {
      const tools = toolTexts(this.#registry.apps());
      this.#index = { version, tools, lexical: new LexicalIndex(tools) };
    }
    return this.#index;
  }

  /** Empty where there is no embedder that answers in time. */
  async #semantic(
    query: string,
    tools: readonly ToolText[],
    signal: AbortSignal,
  ): Promise<readonly Ranked[]> {
    if (!this.#embedder || !this.#vectors || tools.length === 0 || query.trim() === "") return [];
    using limit = timeLimit(signal, this.#deadlineMs);
    try {
      const vectors = await this.#vectors.of(tools, limit.signal);
      if (!vectors) return [];
      const asked = query.slice(0, QUERY_CHARS_MAX);
      const embedded = this.#embedder.embed([asked], limit.signal);
      const [vector] = await untilAborted(embedded, limit.signal);
      return vector ? semanticRank(vector, vectors) : [];
    } catch {
      // Whatever it is: the words are there. The vectors have told what fails.
      return [];
    }
  }
}

function recordOf({ app, tool }: ToolText, score: number): ToolRecord {
  return {
    app_id: app.appId,
    name: tool.name,
    tier: tool.tier,
    description: tool.description,
    undoable: tool.undo !== undefined,
    score: Number(score.toFixed(SCORE_DIGITS)),
  };
}
