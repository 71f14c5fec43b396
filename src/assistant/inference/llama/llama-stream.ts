import type {
  Token as LibraryToken,
  LlamaContextSequence,
  LlamaGrammarEvaluationState,
  LlamaModel,
} from "node-llama-cpp";
import { AssistantError } from "../../errors.ts";
import type { Sampling, StepOutcome, Stream, Token, TokenLogprob } from "../runner.ts";
import { libraryTokens } from "./library.ts";
import { librarySeed, PENALTY_TOKENS, samplingOptions } from "./sampling-options.ts";
import type { Vocabulary } from "./vocabulary.ts";

interface Chosen {
  readonly token: LibraryToken;
  /** Of all candidates, the likeliest first, where it was asked for. */
  readonly probabilities?: ReadonlyMap<LibraryToken, number>;
}

/** What a stream needs of the runner that made it. */
export interface StreamHost {
  readonly model: LlamaModel;
  readonly vocabulary: Vocabulary;
  readonly contextTokens: number;
  sequence(number: number): LlamaContextSequence;
}

export interface StreamOptions {
  readonly sequence: number;
  readonly last: Token;
  readonly sampling: Sampling;
  /** Undefined: free text. */
  readonly beginGrammar: (() => Promise<LlamaGrammarEvaluationState>) | undefined;
}

/**
 * One answer under way. The library's generator holds a sequence from its first step on; what has to
 * survive a suspension is kept here beside it.
 */
export class LlamaStream implements Stream {
  #sequence: number;
  #last: Token;
  #steps: AsyncGenerator<Chosen, void, void> | undefined;
  #suspensions = 0;
  #state: "open" | "suspended" | "ended" = "open";
  readonly #host: StreamHost;
  readonly #sampling: Sampling;
  readonly #beginGrammar: StreamOptions["beginGrammar"];
  #grammar: LlamaGrammarEvaluationState | undefined;
  #grammarError: unknown;
  #prepared: boolean;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** For penalties: the end of the prompt, then what was generated. */
  #recent: Token[];

  constructor(host: StreamHost, options: StreamOptions) {
    this.#host = host;
    this.#sequence = options.sequence;
    this.#last = options.last;
    this.#sampling = options.sampling;
    this.#beginGrammar = options.beginGrammar;
    this.#prepared = !options.beginGrammar;
    const before = host.sequence(options.sequence).contextTokens;
    this.#recent = [...before.slice(1 - PENALTY_TOKENS), options.last];
    // Asked once now, so that what cannot be kept is refused before anything is evaluated.
    this.#options();
  }

  get sequence(): number {
    return this.#sequence;
  }

  get prepared(): boolean {
    return this.#prepared;
  }

  /** What takes more than a moment before the first step. Never rejects: `next` tells what failed. */
  async prepare(): Promise<void> {
    this.#prepared = true;
    try {
      this.#grammar = await this.#beginGrammar?.();
    } catch (error) {
      this.#grammarError = error;
    }
  }

  /** The next token. Hands it in to the library before its first wait, so that steps stay together. */
  async next(): Promise<StepOutcome> {
    try {
      const steps = this.#open();
      const { done, value } = await steps.next();
      if (done || !value) {
        this.#state = "ended";
        return { kind: "end", text: this.#decoder.decode() };
      }
      return this.#tell(value);
    } catch (error) {
      this.#state = "ended";
      return { kind: "failed", error };
    }
  }

  async suspend(): Promise<void> {
    if (this.#state !== "open") return;
    this.#state = "suspended";
    await this.#letGo();
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
    await this.#letGo();
  }

  async #letGo(): Promise<void> {
    const steps = this.#steps;
    this.#steps = undefined;
    await steps?.return();
  }

  #open(): AsyncGenerator<Chosen, void, void> {
    if (this.#state !== "open")
      throw new Error(`a stream that is ${this.#state} has no next token`);
    if (this.#grammarError !== undefined) throw this.#grammarError;
    const sequence = this.#host.sequence(this.#sequence);
    if (sequence.nextTokenIndex >= this.#host.contextTokens) {
      throw new AssistantError(
        "context_length_exceeded",
        `the context is full: it holds ${this.#host.contextTokens} tokens; ask for fewer tokens`,
      );
    }
    if (this.#steps) return this.#steps;
    const last = libraryTokens([this.#last]);
    this.#steps =
      this.#sampling.logprobs === undefined
        ? sequence.evaluateWithMetadata(last, {}, this.#options())
        : sequence.evaluateWithMetadata(last, { probabilities: true }, this.#options());
    return this.#steps;
  }

  #options() {
    return {
      ...samplingOptions(
        this.#host.model,
        this.#sampling,
        librarySeed(this.#sampling.seed, this.#suspensions),
        () => this.#recent,
      ),
      ...(this.#grammar && { grammarEvaluationState: this.#grammar }),
    };
  }

  #tell({ token, probabilities }: Chosen): StepOutcome {
    this.#recent.push(token);
    if (this.#recent.length > PENALTY_TOKENS) this.#recent = this.#recent.slice(-PENALTY_TOKENS);
    const bytes = this.#host.vocabulary.bytes(token, this.#sampling.showControlTokens);
    const text = this.#decoder.decode(bytes, { stream: true });
    if (this.#sampling.logprobs === undefined || !probabilities) {
      return { kind: "token", token, text };
    }
    return { kind: "token", token, text, logprob: this.#logprob(token, probabilities) };
  }

  /** Of the choice that was made: after temperature, penalties, grammar and what cut candidates off. */
  #logprob(token: Token, probabilities: ReadonlyMap<Token, number>): TokenLogprob {
    const top: { text: string; bytes: number[]; logprob: number }[] = [];
    // The library tells them likeliest first.
    for (const [candidate, probability] of probabilities) {
      if (top.length >= (this.#sampling.logprobs ?? 0)) break;
      if (probability > 0) top.push(this.#spell(candidate, probability));
    }
    return { ...this.#spell(token, probabilities.get(token) ?? 0), top };
  }

  #spell(token: Token, probability: number) {
    const bytes = this.#host.vocabulary.bytes(token, true);
    return {
      text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
      bytes: [...bytes],
      // What cannot be told as a float32 any more is still no impossibility: JSON has no -Infinity.
      logprob: Math.max(-100, Math.min(0, Math.log(probability))),
    };
  }
}
