import type { Llama, LlamaContext, LlamaContextSequence, LlamaModel } from "node-llama-cpp";
import { AssistantError } from "../../assistant-error.ts";
import type {
  EmbeddingResult,
  PieceRule,
  Prompt,
  Runner,
  Sampling,
  StepOutcome,
  Token,
  TokenStream,
} from "../runner.ts";
import { type BatchCosts, BatchPlan } from "./batch-plan.ts";
import { EmbeddingPool } from "./embedding-pool.ts";
import { BATCH_TOKENS, GENERATOR_TEXT_TOKENS_MAX } from "./gguf/memory-estimate.ts";
import { GrammarCache } from "./grammar-cache.ts";
import { toLibraryTokens } from "./llama-library.ts";
import { LlamaStream, type StreamHost } from "./llama-stream.ts";
import { type BatchCounts, Lockstep } from "./lockstep.ts";
import { LostRejections } from "./lost-rejections.ts";
import { measurePrefill, measureSteps } from "./measure-steps.ts";
import { createPieceRule } from "./piece-rule.ts";
import { PromptEncoder } from "./prompt-encoder.ts";
import type { ThreadGovernor } from "./threads/thread-governor.ts";
import { Vocabulary } from "./vocabulary.ts";

export interface LlamaRunnerOptions {
  readonly llama: Llama;
  /** The loaded model. The runner owns it and disposes of it. */
  readonly model: LlamaModel;
  readonly contextTokens: number;
  /** The number of KV-cache sequences; 0 for a model made for embedding, which generates nothing. */
  readonly sequences: number;
  /** The number of texts that are embedded concurrently. */
  readonly embeddingsAtOnce: number;
  readonly chatTemplate: string | undefined;
  /**
   * True if the same request must always get the same logprobs, bit for bit. Decoding steps then have a batch for each
   * stream, and flash attention is off, because it divides long contexts among the threads.
   */
  readonly isDeterministic: boolean;
  /** The time in epoch milliseconds, for templates that render the date. */
  readonly now: () => number;
  readonly threads: ThreadGovernor;
}

/** Implements Runner with llama.cpp; see `lockstep.ts` for how a decoding step becomes one batch. */
export class LlamaRunner implements Runner {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly pieces: PieceRule;
  readonly #options: LlamaRunnerOptions;
  readonly #generation: GenerationContext | undefined;
  readonly #lockstep: Lockstep;
  readonly #batchPlan = new BatchPlan();
  readonly #encoder: PromptEncoder;
  readonly #grammars: GrammarCache;
  readonly #lostRejections = new LostRejections();
  readonly #embeddings: EmbeddingPool;
  readonly #host: StreamHost;
  #lastEmbedding: Promise<unknown> = Promise.resolve();

  /** Creates the context of all KV-cache sequences and allocates its memory. */
  static async open(options: LlamaRunnerOptions): Promise<LlamaRunner> {
    const lockstep = new Lockstep();
    const generation =
      options.sequences === 0 ? undefined : await openGenerationContext(options, lockstep);
    return new LlamaRunner(options, lockstep, generation);
  }

  private constructor(
    options: LlamaRunnerOptions,
    lockstep: Lockstep,
    generation: GenerationContext | undefined,
  ) {
    const { llama, model } = options;
    this.#options = options;
    this.#lockstep = lockstep;
    this.#generation = generation;
    this.sequences = options.sequences;
    this.contextTokens = options.contextTokens;
    this.pieces = createPieceRule(options.isDeterministic);
    const vocabulary = new Vocabulary(model);
    this.#encoder = new PromptEncoder({ ...options, vocabulary });
    this.#grammars = new GrammarCache(llama, model);
    this.#embeddings = new EmbeddingPool({
      model,
      tokensMax:
        options.sequences === 0
          ? options.contextTokens
          : Math.min(options.contextTokens, GENERATOR_TEXT_TOKENS_MAX),
      concurrency: options.embeddingsAtOnce,
      threads: () => options.threads.getThreads("prefill"),
      wholeTexts: options.sequences === 0,
    });
    this.#host = {
      model,
      vocabulary,
      contextTokens: options.contextTokens,
      getSequence: (number) => this.#getSequence(number),
    };
  }

  get batches(): BatchCounts {
    return this.#lockstep.counts;
  }

  async encode(prompt: Prompt): Promise<readonly Token[]> {
    return this.#encoder.encode(prompt);
  }

  async truncate(sequence: number, length: number): Promise<number> {
    const state = this.#getSequence(sequence);
    if (state.nextTokenIndex > length) {
      // `adaptStateToTokens` keeps a prefix. If a range were erased instead, node-llama-cpp would evaluate again those
      // tokens that a sliding window has lost.
      await state.adaptStateToTokens(state.contextTokens.slice(0, length), false);
    }
    return state.nextTokenIndex;
  }

  async prefill(sequence: number, tokens: readonly Token[]): Promise<void> {
    const state = this.#getSequence(sequence);
    if (state.nextTokenIndex + tokens.length > this.contextTokens) {
      throw new AssistantError(
        "context_length_exceeded",
        `the prompt exceeds the context of ${this.contextTokens} tokens`,
      );
    }
    this.#options.threads.prepare("prefill");
    this.#lockstep.expect(1);
    await this.#lostRejections.guard(
      state.evaluateWithoutGeneratingNewTokens(toLibraryTokens(tokens)),
    );
  }

  start(sequence: number, last: Token, sampling: Sampling): TokenStream {
    const { grammar } = sampling;
    return new LlamaStream(this.#host, {
      sequence,
      last,
      sampling,
      beginGrammar: grammar === undefined ? undefined : () => this.#grammars.createState(grammar),
    });
  }

  async step(streams: readonly TokenStream[]): Promise<readonly StepOutcome[]> {
    const llamaStreams = streams.filter((stream) => stream instanceof LlamaStream);
    const unprepared = llamaStreams.filter((stream) => !stream.isPrepared);
    if (unprepared.length > 0) await Promise.all(unprepared.map((stream) => stream.prepare()));
    this.#options.threads.prepare("decode");
    const started = performance.now();
    const outcomes = await this.#lostRejections.guard(this.#decode(llamaStreams));
    this.#options.threads.observe(performance.now() - started, llamaStreams.length);
    return llamaStreams.flatMap((stream) => outcomes.get(stream) ?? []);
  }

  embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult> {
    // The number of threads is set for all contexts together, because contexts that compute concurrently share the
    // cores.
    this.#options.threads.prepare("embed");
    const embedding = this.#embeddings.embed(texts, signal);
    // After an abort, the embedding of the current text continues and uses its context until it has ended. So
    // `#lastEmbedding` must be awaited before the contexts are disposed of.
    this.#lastEmbedding = embedding.catch(() => {});
    return embedding;
  }

  /**
   * Reports that a promise of this process was rejected and that no code handled the rejection; see `LostRejections`.
   */
  reportLostRejection(error: unknown): void {
    this.#lostRejections.report(error);
  }

  /** Sets the measured costs of batches; see `measureStep`. */
  adoptBatchCosts(costs: BatchCosts): void {
    this.#batchPlan.adopt(costs);
  }

  /** Measures how long a decoding step of `width` streams takes as one batch, in milliseconds. */
  async measureStep(width: number): Promise<number> {
    const sequences = Array.from({ length: width }, (_, number) => this.#getSequence(number));
    this.#options.threads.prepare("decode");
    const measured = await measureSteps(sequences, () => this.#lockstep.expect(width));
    for (const sequence of sequences) await sequence.clearHistory();
    return measured;
  }

  /**
   * Measures with this number of threads how long one token (`decode`) or a chunk of a prompt (`prefill`) takes, in
   * milliseconds. For a model that can only embed, measures an embedding.
   */
  async measure(kind: "decode" | "prefill", threads: number): Promise<number> {
    this.#options.threads.force(threads);
    try {
      if (!this.#generation) return await this.#embeddings.measure();
      const sequence = this.#getSequence(0);
      const expectOne = () => this.#lockstep.expect(1);
      expectOne();
      const measured = await (kind === "decode"
        ? measureSteps([sequence], expectOne)
        : measurePrefill(sequence, this.pieces.wideTokens));
      await sequence.clearHistory();
      return measured;
    } finally {
      this.#options.threads.force(undefined);
    }
  }

  /** Waits for the current computation, then frees contexts and model. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lastEmbedding;
    await this.#embeddings[Symbol.asyncDispose]();
    await this.#generation?.context.dispose();
    await this.#options.model.dispose();
  }

  /**
   * Decodes a token of each stream. The first token of an answer is decoded alone, so that it depends on the prompt
   * alone: with some types of weights, a batch of several streams rounds differently.
   */
  async #decode(streams: readonly LlamaStream[]): Promise<Map<LlamaStream, StepOutcome>> {
    const isAlone = (stream: LlamaStream) => this.pieces.isExact || !stream.hasStepped;
    const alone = streams.filter(isAlone);
    const together = streams.filter((stream) => !isAlone(stream));
    const outcomes = new Map<LlamaStream, StepOutcome>();
    // The streams that are decoded alone and the streams that share batches are decoded one after the other. Otherwise
    // their tokens would be mixed, because streams submit their tokens in any order.
    for (const [group, widths] of [
      [alone, alone.map(() => 1)],
      [together, this.#batchPlan.widths(together.length)],
    ] as const) {
      if (group.length === 0) continue;
      this.#lockstep.expect(group.length, widths);
      const ofGroup = await Promise.all(group.map((stream) => this.#stepStream(stream)));
      for (const [at, outcome] of ofGroup.entries()) {
        const stream = group[at];
        if (stream) outcomes.set(stream, outcome);
      }
    }
    return outcomes;
  }

  async #stepStream(stream: LlamaStream): Promise<StepOutcome> {
    const outcome = await stream.next();
    if (outcome.kind === "failed") this.#lockstep.expectOneLess();
    return outcome;
  }

  #getSequence(number: number): LlamaContextSequence {
    if (!this.#generation) {
      throw new AssistantError(
        "model_unsuitable",
        "the model only creates embeddings; use another model to generate text",
      );
    }
    const sequence = this.#generation.sequences[number];
    if (!sequence) throw new RangeError(`there is no KV-cache sequence ${number}`);
    return sequence;
  }
}

function refuseToShift(): never {
  throw new Error("the context is full");
}

interface GenerationContext {
  readonly context: LlamaContext;
  readonly sequences: readonly LlamaContextSequence[];
}

async function openGenerationContext(
  { model, contextTokens, sequences, threads, isDeterministic }: LlamaRunnerOptions,
  lockstep: Lockstep,
): Promise<GenerationContext> {
  const context = await model.createContext({
    sequences,
    // The context has one position more than requested, because node-llama-cpp never uses the last position.
    contextSize: contextTokens + 1,
    batchSize: Math.max(BATCH_TOKENS, sequences),
    flashAttention: isDeterministic ? false : "auto",
    // Without the full cache, a layer with a sliding window caches only the tokens of the window. The cells of the
    // cache in which they are stored, and thereby the rounding, then depend on what the sequence held before.
    swaFullCache: isDeterministic,
    threads: threads.threadsMax,
    batching: lockstep.batching,
    failedCreationRemedy: false,
    ignoreMemorySafetyChecks: true,
  });
  return {
    context,
    sequences: Array.from({ length: sequences }, () =>
      context.getSequence({ contextShift: { size: 1, strategy: refuseToShift } }),
    ),
  };
}
