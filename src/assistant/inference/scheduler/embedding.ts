import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../errors.ts";
import type { Priority } from "../engine.ts";
import { type Embedded, type Runner, TextTooLongError } from "../runner.ts";

/** A piece of an embedding job should take about this long, as others wait meanwhile for their step. */
const PIECE_SHORT_MS = 25;
const PIECE_LONG_MS = 100;
const COST_MIN = 256;
const COST_FIRST = 2048;
const COST_MAX = 65_536;
/** What a text costs beside its characters, in characters. */
const TEXT_COST = 16;

/** How much text one call embeds: learned from how long the last calls took. */
export class EmbeddingPace {
  #cost = COST_FIRST;

  get costMax(): number {
    return this.#cost;
  }

  /** A piece of this cost took so long. */
  learn(cost: number, tookMs: number): void {
    if (tookMs > PIECE_LONG_MS) this.#cost = Math.max(COST_MIN, Math.floor(this.#cost / 2));
    else if (tookMs < PIECE_SHORT_MS && cost * 2 > this.#cost)
      this.#cost = Math.min(COST_MAX, this.#cost * 2);
  }
}

/** Texts that are being embedded, piece by piece. */
export class Embedding {
  readonly order: number;
  readonly priority: Priority;
  readonly result: Promise<Embedded>;
  over = false;

  readonly #texts: readonly string[];
  readonly #vectors: Float32Array[] = [];
  readonly #tokens: number[] = [];
  /** Ends the piece that is under way. */
  readonly #ending = new AbortController();
  #remaining: number;
  #resolve: (embedded: Embedded) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(order: number, texts: readonly string[], priority: Priority) {
    this.order = order;
    this.priority = priority;
    this.#texts = texts;
    this.#remaining = texts.reduce((sum, text) => sum + costOf(text), 0);
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get begun(): boolean {
    return this.#vectors.length > 0;
  }

  /** About how many tokens are left; a token of most models is four characters of English. */
  get remaining(): number {
    return Math.ceil(this.#remaining / 4);
  }

  /**
   * Embeds the next texts: as many as the pace allows, or one alone. Settles the job when it was the last
   * piece, or a text does not fit; rejects where the runner failed, which is no job's fault.
   */
  async piece(runner: Runner, pace: EmbeddingPace, alone: boolean, clock: Clock): Promise<void> {
    const begin = this.#vectors.length;
    const { end, cost } = this.#cut(begin, alone ? 0 : pace.costMax);
    const startedAt = clock.now();
    try {
      const texts = this.#texts.slice(begin, end);
      const { vectors, tokens } = await runner.embed(texts, this.#ending.signal);
      this.#vectors.push(...vectors);
      this.#tokens.push(...tokens);
    } catch (error) {
      if (this.over) return;
      const own = jobError(error, begin);
      if (!own) throw error;
      this.fail(own);
      return;
    }
    this.#remaining -= cost;
    if (!alone) pace.learn(cost, clock.now() - startedAt);
    if (end < this.#texts.length || this.over) return;
    this.over = true;
    this.#resolve({ vectors: this.#vectors, tokens: this.#tokens });
  }

  /** Does nothing after the end. */
  fail(error: unknown): void {
    if (this.over) return;
    this.over = true;
    this.#ending.abort(error);
    this.#reject(error);
  }

  /** The texts up to `end`, at least one. */
  #cut(begin: number, costMax: number): { end: number; cost: number } {
    let cost = costOf(this.#texts[begin]);
    let end = begin + 1;
    while (end < this.#texts.length) {
      const next = cost + costOf(this.#texts[end]);
      if (next > costMax) break;
      cost = next;
      end += 1;
    }
    return { end, cost };
  }
}

function costOf(text = ""): number {
  return text.length + TEXT_COST;
}

/** The error of this job alone; undefined: the runner is broken. */
function jobError(error: unknown, begin: number): AssistantError | undefined {
  if (error instanceof AssistantError) return error;
  if (!(error instanceof TextTooLongError)) return undefined;
  const { index, tokens, tokensMax } = error;
  return new AssistantError(
    "context_length_exceeded",
    `Text ${begin + index} has ${tokens} tokens, and the model takes ${tokensMax} at once; divide the text.`,
    { param: `input[${begin + index}]` },
  );
}
