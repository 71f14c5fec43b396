import type { Token as LibraryToken, LlamaEmbeddingContext, LlamaModel } from "node-llama-cpp";
import { type EmbeddingResult, TextTooLongError } from "../runner.ts";
import { SHORT_TEXT_TOKENS } from "./gguf/memory-estimate.ts";

export interface EmbeddingPoolOptions {
  readonly model: LlamaModel;
  /** The maximum number of tokens of one text, including those that the model adds at both ends. */
  readonly tokensMax: number;
  /** The number of texts that are embedded concurrently, each in its own context. */
  readonly concurrency: number;
  /** Returns the number of threads for one text; called when a context is created. */
  readonly threads: () => number;
  /** True if the model must embed each text in a single batch. Models that are made for embedding require this. */
  readonly wholeTexts: boolean;
}

interface TokenizedText {
  readonly index: number;
  readonly tokens: LibraryToken[];
  readonly length: number;
}

/** Embeds texts in several contexts, because node-llama-cpp embeds only one text at a time in a context. */
export class EmbeddingPool implements AsyncDisposable {
  readonly #options: EmbeddingPoolOptions;
  readonly #short: Promise<LlamaEmbeddingContext>[] = [];
  #long: Promise<LlamaEmbeddingContext> | undefined;

  constructor(options: EmbeddingPoolOptions) {
    this.#options = options;
  }

  /**
   * Returns unit vectors. Rejects with TextTooLongError before any computation. An abort takes effect between texts.
   */
  async embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult> {
    signal.throwIfAborted();
    const first = await this.#shortContext(0);
    const entries = texts.map((text, index) => this.#tokenize(first, text, index));
    const vectors: Float32Array[] = [];
    // The longest texts are embedded first, so that no core is idle for long at the end.
    const queue = entries.toSorted((one, other) => one.length - other.length);
    const work = async (slot: number) => {
      for (let entry = queue.pop(); entry; entry = queue.pop()) {
        signal.throwIfAborted();
        const context =
          entry.length > this.#shortTokens
            ? await this.#longContext()
            : await this.#shortContext(slot);
        const { vector } = await context.getEmbeddingFor(entry.tokens);
        vectors[entry.index] = normalise(vector);
      }
    };
    const slots = Math.min(this.#options.concurrency, texts.length);
    const outcomes = await Promise.allSettled(
      Array.from({ length: slots }, (_, slot) => work(slot)),
    );
    const failed = outcomes.find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
    return { vectors, tokens: entries.map(({ length }) => length) };
  }

  /** Measures how many milliseconds the embedding of one short text takes with the current number of threads. */
  async measure(): Promise<number> {
    const { model } = this.#options;
    const tokens = model.tokenize("measure ".repeat(32), false).slice(0, this.#shortTokens - 2);
    const context = await this.#create(this.#shortTokens);
    try {
      await context.getEmbeddingFor(tokens);
      const started = performance.now();
      await context.getEmbeddingFor(tokens);
      return performance.now() - started;
    } finally {
      await context.dispose();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const contexts = [...this.#short, ...(this.#long ? [this.#long] : [])];
    await Promise.allSettled(contexts.map(async (context) => (await context).dispose()));
  }

  get #shortTokens(): number {
    return Math.min(SHORT_TEXT_TOKENS, this.#options.tokensMax);
  }

  #tokenize(context: LlamaEmbeddingContext, text: string, index: number): TokenizedText {
    const { model, tokensMax } = this.#options;
    const tokens = model.tokenize(text, false);
    if (tokens.length === 0) {
      // There is no vector for an empty text, so the vector of a single token, such as BOS, is used.
      const { bos, eos, nl } = model.tokens;
      const beginning = bos ?? eos ?? nl;
      if (beginning !== null) tokens.push(beginning);
    }
    const length = context.calculateInputLength(tokens);
    if (length > tokensMax) throw new TextTooLongError(index, length, tokensMax);
    return { index, tokens, length };
  }

  #shortContext(slot: number): Promise<LlamaEmbeddingContext> {
    return (this.#short[slot] ??= this.#create(this.#shortTokens));
  }

  #longContext(): Promise<LlamaEmbeddingContext> {
    return (this.#long ??= this.#create(this.#options.tokensMax));
  }

  #create(tokens: number): Promise<LlamaEmbeddingContext> {
    const { model, threads, wholeTexts } = this.#options;
    // The library node-llama-cpp requires a context that is one token longer than the longest text.
    const contextSize = tokens + 1;
    return model.createEmbeddingContext({
      contextSize,
      batchSize: wholeTexts ? contextSize : Math.min(contextSize, SHORT_TEXT_TOKENS),
      threads: threads(),
      ignoreMemorySafetyChecks: true,
    });
  }
}

/**
 * Scales a vector to length 1, so that the dot product of two vectors is their cosine. A zero vector is returned
 * unchanged.
 */
function normalise(values: readonly number[]): Float32Array {
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(values, (value) => (length > 0 ? value / length : 0));
}
