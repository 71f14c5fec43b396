import type {
  Token as LibraryToken,
  LlamaContextSequence,
  LlamaGrammarEvaluationState,
  LlamaModel,
} from "node-llama-cpp";
import { AssistantError } from "../../assistant-error.ts";
import type { Sampling, StepOutcome, Token, TokenLogprob, TokenStream } from "../runner.ts";
import { toLibraryTokens } from "./llama-library.ts";
import { buildSamplingOptions, deriveLibrarySeed, PENALTY_TOKENS } from "./sampling-options.ts";
import type { Vocabulary } from "./vocabulary.ts";

interface SampledToken {
  readonly token: LibraryToken;
  /** Probabilities of all candidates, the likeliest first; undefined unless requested. */
  readonly probabilities?: ReadonlyMap<LibraryToken, number>;
}

/** The parts of the runner that its streams use. */
export interface StreamHost {
  readonly model: LlamaModel;
  readonly vocabulary: Vocabulary;
  readonly contextTokens: number;
  getSequence(number: number): LlamaContextSequence;
}

export interface LlamaStreamOptions {
  readonly sequence: number;
  readonly last: Token;
  readonly sampling: Sampling;
  /** Creates the state of the grammar; undefined for free text. */
  readonly beginGrammar: (() => Promise<LlamaGrammarEvaluationState>) | undefined;
}

/**
 * The stream of one answer's tokens. The generator of node-llama-cpp holds a KV-cache sequence from its first decoding
 * step on; a suspension ends the generator, so state that must survive is kept here.
 */
export class LlamaStream implements TokenStream {
  readonly #host: StreamHost;
  readonly #options: LlamaStreamOptions;
  #sequence: number;
  #last: Token;
  #steps: AsyncGenerator<SampledToken, void, void> | undefined;
  #suspensions = 0;
  #state: "open" | "suspended" | "ended" = "open";
  #grammar: LlamaGrammarEvaluationState | undefined;
  #grammarError: unknown;
  #isPrepared: boolean;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** The latest tokens of prompt and answer, to which the penalties apply. */
  #recentTokens: Token[];

  constructor(host: StreamHost, options: LlamaStreamOptions) {
    this.#host = host;
    this.#options = options;
    this.#sequence = options.sequence;
    this.#last = options.last;
    this.#isPrepared = !options.beginGrammar;
    const before = host.getSequence(options.sequence).contextTokens;
    this.#recentTokens = [...before.slice(1 - PENALTY_TOKENS), options.last];
    // The options are built once at this point, so that unsupported options are refused before any token is evaluated.
    this.#buildOptions();
  }

  get sequence(): number {
    return this.#sequence;
  }

  get isPrepared(): boolean {
    return this.#isPrepared;
  }

  /** True if the stream has decoded a token on its KV-cache sequence. */
  get hasStepped(): boolean {
    return this.#steps !== undefined;
  }

  /** Compiles the grammar before the first decoding step. Never rejects: `next` returns the failure. */
  async prepare(): Promise<void> {
    this.#isPrepared = true;
    try {
      this.#grammar = await this.#options.beginGrammar?.();
    } catch (error) {
      this.#grammarError = error;
    }
  }

  /**
   * Returns the next token. Calls node-llama-cpp before its first await, so that the tokens of all streams of a
   * decoding step share a batch.
   */
  async next(): Promise<StepOutcome> {
    try {
      const steps = this.#openSteps();
      const { done, value } = await steps.next();
      if (done || !value) {
        this.#state = "ended";
        return { kind: "end", text: this.#decoder.decode() };
      }
      return this.#toOutcome(value);
    } catch (error) {
      this.#state = "ended";
      return { kind: "failed", error };
    }
  }

  async suspend(): Promise<void> {
    if (this.#state !== "open") return;
    this.#state = "suspended";
    await this.#releaseSequence();
  }

  resume(sequence: number, last: Token): void {
    if (this.#state !== "suspended") throw new Error("only a suspended stream can be resumed");
    this.#state = "open";
    this.#sequence = sequence;
    this.#last = last;
    this.#suspensions++;
  }

  async close(): Promise<void> {
    this.#state = "ended";
    await this.#releaseSequence();
  }

  async #releaseSequence(): Promise<void> {
    const steps = this.#steps;
    this.#steps = undefined;
    await steps?.return();
  }

  #openSteps(): AsyncGenerator<SampledToken, void, void> {
    if (this.#state !== "open")
      throw new Error(`a stream that is ${this.#state} has no next token`);
    if (this.#grammarError !== undefined) throw this.#grammarError;
    const sequence = this.#host.getSequence(this.#sequence);
    if (sequence.nextTokenIndex >= this.#host.contextTokens) {
      throw new AssistantError(
        "context_length_exceeded",
        `the context is full: it holds ${this.#host.contextTokens} tokens; ask for fewer tokens`,
      );
    }
    if (this.#steps) return this.#steps;
    const last = toLibraryTokens([this.#last]);
    this.#steps =
      this.#options.sampling.logprobs === undefined
        ? sequence.evaluateWithMetadata(last, {}, this.#buildOptions())
        : sequence.evaluateWithMetadata(last, { probabilities: true }, this.#buildOptions());
    return this.#steps;
  }

  #buildOptions() {
    return {
      ...buildSamplingOptions(
        this.#host.model,
        this.#options.sampling,
        deriveLibrarySeed(this.#options.sampling.seed, this.#suspensions),
        () => this.#recentTokens,
      ),
      ...(this.#grammar && { grammarEvaluationState: this.#grammar }),
    };
  }

  #toOutcome({ token, probabilities }: SampledToken): StepOutcome {
    this.#recentTokens.push(token);
    if (this.#recentTokens.length > PENALTY_TOKENS)
      this.#recentTokens = this.#recentTokens.slice(-PENALTY_TOKENS);
    const bytes = this.#host.vocabulary.getBytes(token, this.#options.sampling.showControlTokens);
    const text = this.#decoder.decode(bytes, { stream: true });
    if (this.#options.sampling.logprobs === undefined || !probabilities) {
      return { kind: "token", token, text };
    }
    return { kind: "token", token, text, logprob: this.#toLogprob(token, probabilities) };
  }

  /**
   * Returns the logarithm of the probability after temperature, penalties, grammar and the filters that remove
   * candidates.
   */
  #toLogprob(token: Token, probabilities: ReadonlyMap<Token, number>): TokenLogprob {
    const top: { text: string; bytes: number[]; logprob: number }[] = [];
    // The candidates from node-llama-cpp are in order, the likeliest first.
    for (const [candidate, probability] of probabilities) {
      if (top.length >= (this.#options.sampling.logprobs ?? 0)) break;
      if (probability > 0) top.push(this.#toCandidate(candidate, probability));
    }
    return { ...this.#toCandidate(token, probabilities.get(token) ?? 0), top };
  }

  #toCandidate(token: Token, probability: number) {
    const bytes = this.#host.vocabulary.getBytes(token, true);
    return {
      text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
      bytes: [...bytes],
      // A token whose probability float32 rounds to 0 is still possible, so its logprob is limited: JSON has no
      // -Infinity.
      logprob: Math.max(-100, Math.min(0, Math.log(probability))),
    };
  }
}
