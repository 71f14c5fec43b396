import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { RequestPriority } from "../inference-engine.ts";
import { type EmbeddingResult, type Runner, TextTooLongError } from "../runner.ts";

/** A piece of an embedding job should take about this long, as others wait meanwhile for their step. */
const PIECE_SHORT_MS = 25;
const PIECE_LONG_MS = 100;
const COST_MIN = 256;
const COST_FIRST = 2048;
const COST_MAX = 65_536;
/** What a text costs beside its characters, in characters. */
const TEXT_COST = 16;

/** How much text one call embeds: learned from how long the last calls took. */
export class EmbeddingBatchSizer {
  #cost = COST_FIRST;

  get costMax(): number {
    return this.#cost;
  }

  /** A piece of this cost took so long. */
  observe(cost: number, tookMs: number): void {
    if (tookMs > PIECE_LONG_MS) this.#cost = Math.max(COST_MIN, Math.floor(this.#cost / 2));
    else if (tookMs < PIECE_SHORT_MS && cost * 2 > this.#cost)
      this.#cost = Math.min(COST_MAX, this.#cost * 2);
  }
}

/** Texts that are being embedded, piece by piece. */
export class EmbeddingJob {
  readonly order: number;
  readonly priority: RequestPriority;
  readonly result: Promise<EmbeddingResult>;
  isOver = false;

  readonly #texts: readonly string[];
  readonly #vectors: Float32Array[] = [];
  readonly #tokens: number[] = [];
  /** Ends the piece that is under way. */
  readonly #pieceAbort = new AbortController();
  #remainingCost: number;
  #resolve: (embedded: EmbeddingResult) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(order: number, texts: readonly string[], priority: RequestPriority) {
    this.order = order;
    this.priority = priority;
    this.#texts = texts;
    this.#remainingCost = texts.reduce((sum, text) => sum + getCost(text), 0);
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get hasStarted(): boolean {
    return this.#vectors.length > 0;
  }

  /** About how many tokens are left; a token of most models is four characters of English. */
  get remainingTokens(): number {
    return Math.ceil(this.#remainingCost / 4);
  }

  /**
   * Embeds the next texts: as many as the pace allows, or one alone. Settles the job when it was the last
   * piece, or a text does not fit; rejects where the runner failed, which is no job's fault.
   */
  async runPiece(
    runner: Runner,
    sizer: EmbeddingBatchSizer,
    alone: boolean,
    clock: Clock,
  ): Promise<void> {
    const begin = this.#vectors.length;
    const { end, cost } = this.#cutPiece(begin, alone ? 0 : sizer.costMax);
    const startedAt = clock.now();
    try {
      const texts = this.#texts.slice(begin, end);
      const { vectors, tokens } = await runner.embed(texts, this.#pieceAbort.signal);
      this.#vectors.push(...vectors);
      this.#tokens.push(...tokens);
    } catch (error) {
      if (this.isOver) return;
      const ownError = toJobError(error, begin);
      if (!ownError) throw error;
      this.fail(ownError);
      return;
    }
    this.#remainingCost -= cost;
    if (!alone) sizer.observe(cost, clock.now() - startedAt);
    if (end < this.#texts.length || this.isOver) return;
    this.isOver = true;
    this.#resolve({ vectors: this.#vectors, tokens: this.#tokens });
  }

  /** Does nothing after the end. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#pieceAbort.abort(error);
    this.#reject(error);
  }

  /** The texts up to `end`, at least one. */
  #cutPiece(begin: number, costMax: number): { end: number; cost: number } {
    let cost = getCost(this.#texts[begin]);
    let end = begin + 1;
    while (end < this.#texts.length) {
      const next = cost + getCost(this.#texts[end]);
      if (next > costMax) break;
      cost = next;
      end += 1;
    }
    return { end, cost };
  }
}

function getCost(text = ""): number {
  return text.length + TEXT_COST;
}

/** The error of this job alone; undefined: the runner is broken. */
function toJobError(error: unknown, begin: number): AssistantError | undefined {
  if (error instanceof AssistantError) return error;
  if (!(error instanceof TextTooLongError)) return undefined;
  const { index, tokens, tokensMax } = error;
  return new AssistantError(
    "context_length_exceeded",
    `Text ${begin + index} has ${tokens} tokens, and the model takes ${tokensMax} at once; divide the text.`,
    { param: `input[${begin + index}]` },
  );
}
