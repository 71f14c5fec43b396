import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { RequestPriority } from "../inference-engine.ts";
import { type EmbeddingResult, type Runner, TextTooLongError } from "../runner.ts";

/**
 * PIECE_SHORT_MS and PIECE_LONG_MS are the desired minimum and maximum duration of one embedding call of the runner.
 * During that call, generations wait for their next decoding step.
 */
const PIECE_SHORT_MS = 25;
const PIECE_LONG_MS = 100;
const COST_MIN = 256;
const COST_FIRST = 2048;
const COST_MAX = 65_536;
/** The fixed cost of embedding a text, expressed in characters. */
const TEXT_COST = 16;

/** Chooses how much text one embedding call of the runner may embed, according to the durations of earlier calls. */
export class EmbeddingBatchSizer {
  #cost = COST_FIRST;

  get costMax(): number {
    return this.#cost;
  }

  /**
   * Adapts `costMax` after an embedding call that took `tookMs` for texts with the total cost `cost`. The cost of a
   * text is its number of characters plus TEXT_COST.
   */
  observe(cost: number, tookMs: number): void {
    if (tookMs > PIECE_LONG_MS) this.#cost = Math.max(COST_MIN, Math.floor(this.#cost / 2));
    else if (tookMs < PIECE_SHORT_MS && cost * 2 > this.#cost)
      this.#cost = Math.min(COST_MAX, this.#cost * 2);
  }
}

/** The texts of one embedding request. Each embedding call of the runner embeds some of them (a piece). */
export class EmbeddingJob {
  readonly order: number;
  readonly priority: RequestPriority;
  readonly result: Promise<EmbeddingResult>;
  isOver = false;

  readonly #texts: readonly string[];
  readonly #vectors: Float32Array[] = [];
  readonly #tokens: number[] = [];
  /** Aborts the embedding call that the runner executes for this job. */
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

  /**
   * An estimate of the number of tokens that are not embedded yet; in most models a token is four characters of
   * English.
   */
  get remainingTokens(): number {
    return Math.ceil(this.#remainingCost / 4);
  }

  /**
   * Embeds the next texts: as many as `sizer` allows, or only one text if `alone` is true. Settles the job after the
   * last text, or when a text is too long for the model. Rejects if the runner itself failed.
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
      const jobError = toJobError(error, begin);
      if (!jobError) throw error;
      this.fail(jobError);
      return;
    }
    this.#remainingCost -= cost;
    if (!alone) sizer.observe(cost, clock.now() - startedAt);
    if (end < this.#texts.length || this.isOver) return;
    this.isOver = true;
    this.#resolve({ vectors: this.#vectors, tokens: this.#tokens });
  }

  /** Rejects the result of the job and aborts its current embedding call. Does nothing once the job has ended. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#pieceAbort.abort(error);
    this.#reject(error);
  }

  /**
   * Chooses the texts of the next embedding call: at least one, and more while their total cost is at most `costMax`.
   * Returns the index after the last text, and the total cost.
   */
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

/** Converts an error that concerns only this job into the error for its caller; undefined if the runner is broken. */
function toJobError(error: unknown, begin: number): AssistantError | undefined {
  if (error instanceof AssistantError) return error;
  if (!(error instanceof TextTooLongError)) return undefined;
  const { index, tokens, tokensMax } = error;
  return new AssistantError(
    "context_length_exceeded",
    `Text ${begin + index} has ${tokens} tokens, but the model accepts at most ${tokensMax} per text; split this one.`,
    { param: `input[${begin + index}]` },
  );
}
