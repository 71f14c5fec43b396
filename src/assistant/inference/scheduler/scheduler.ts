import { untilAborted } from "../../../base/aborting.ts";
import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../errors.ts";
import type {
  Cores,
  GenerateEvent,
  GenerateJob,
  ModelEnd,
  ModelLoad,
  Priority,
} from "../engine.ts";
import type { Embedded, Prompt, Runner, Token } from "../runner.ts";
import { CoreShare } from "./core-share.ts";
import { Embedding, EmbeddingPace } from "./embedding.ts";
import { Generation, type Seat } from "./generation.ts";
import {
  contextExceeded,
  emptyPrompt,
  engineFailed,
  noSequences,
  shuttingDown,
} from "./refusals.ts";
import { Seating } from "./seating.ts";
import { Slot } from "./slot.ts";
import { type Turn, Turns } from "./turns.ts";

export interface SchedulerOptions {
  /** Driven by this scheduler alone; disposing it is left to its owner. */
  readonly runner: Runner;
  readonly cores: Cores;
  readonly clock: Clock;
}

/**
 * The barrier: one loop that makes every call of the runner which touches sequences, one after the other.
 * Between two of them whoever ended is let go and whoever waits gets a sequence; then Turns says whose
 * call is next. See local-model.ts for what callers see of it.
 */
export class Scheduler implements AsyncDisposable {
  /** Resolves when a call of the runner was rejected; the model is of no use after that. */
  readonly ended: Promise<ModelEnd>;

  readonly #runner: Runner;
  readonly #clock: Clock;
  readonly #cores: CoreShare;
  readonly #slots: readonly Seat[];
  readonly #seating: Seating;
  readonly #turns: Turns;
  readonly #pace = new EmbeddingPace();
  /** All that are not over, and how each stops listening to its caller. */
  readonly #generations = new Map<Generation, () => void>();
  readonly #embeddings = new Set<Embedding>();
  readonly #encodings = new Set<Promise<unknown>>();
  /** What callers of `encode` and unfinished jobs are told when everything ends. */
  readonly #closing = new AbortController();
  readonly #loop: Promise<void>;
  #order = 0;
  #woken = false;
  #wakeUp: () => void = () => {};
  #onEnded: (end: ModelEnd) => void = () => {};

  constructor({ runner, cores, clock }: SchedulerOptions) {
    this.#runner = runner;
    this.#clock = clock;
    this.#cores = new CoreShare(cores);
    this.#slots = Array.from(
      { length: runner.sequences },
      (_, index) => new Slot<Generation>(index),
    );
    this.#seating = new Seating({
      runner,
      clock,
      slots: this.#slots,
      onFailed: (generation, error) => this.#fail(generation, own(error)),
    });
    this.#turns = new Turns(this.#slots, this.#embeddings, runner.prefillTokensMax);
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve;
    });
    this.#loop = this.#run();
  }

  get load(): ModelLoad {
    const active = this.#slots.filter((slot) => slot.owner).length;
    let queued = 0;
    for (const generation of this.#generations.keys()) if (!generation.slot) queued += 1;
    for (const embedding of this.#embeddings) if (!embedding.begun) queued += 1;
    return { active, queued };
  }

  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    this.#order += 1;
    const generation: Generation = new Generation(this.#order, job, {
      onBegin: () => this.#begin(generation, signal),
      onLeave: () => this.#finish(generation),
      onRoom: () => {
        generation.fullSince = undefined;
        this.#seating.resume(generation);
        this.#wake();
      },
    });
    return generation.outbox;
  }

  async embed(
    texts: readonly string[],
    priority: Priority,
    signal: AbortSignal,
  ): Promise<Embedded> {
    signal.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (texts.length === 0) return { vectors: [], tokens: [] };
    this.#order += 1;
    const embedding = new Embedding(this.#order, texts, priority);
    const onAbort = () => {
      this.#embeddings.delete(embedding);
      embedding.fail(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#embeddings.add(embedding);
    this.#wake();
    return embedding.result.finally(() => {
      this.#embeddings.delete(embedding);
      signal.removeEventListener("abort", onAbort);
    });
  }

  async encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]> {
    signal.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    return untilAborted(this.#encode(prompt), signal, this.#closing.signal);
  }

  /** Whatever is under way rejects with `shutting_down`; resolves when the runner is no longer called. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#close(shuttingDown());
    await this.#loop;
    await Promise.allSettled(this.#encodings);
  }

  #begin(generation: Generation, signal: AbortSignal): void {
    if (signal.aborted || this.#closing.signal.aborted) {
      const { reason } = signal.aborted ? signal : this.#closing.signal;
      generation.over = true;
      generation.outbox.abort(reason);
      return;
    }
    const onAbort = () => {
      generation.outbox.abort(signal.reason);
      this.#finish(generation);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#generations.set(generation, () => signal.removeEventListener("abort", onAbort));
    if (this.#slots.length === 0) this.#fail(generation, noSequences());
    else
      void this.#encode(generation.prompt).then(
        (tokens) => this.#enqueue(generation, tokens),
        (error: unknown) => this.#fail(generation, error),
      );
  }

  async #encode(prompt: Prompt): Promise<readonly Token[]> {
    const encoding = this.#runner.encode(prompt);
    this.#encodings.add(encoding);
    try {
      return await encoding;
    } catch (error) {
      // A template stumbles over one prompt; that breaks nothing for the others.
      throw own(error);
    } finally {
      this.#encodings.delete(encoding);
    }
  }

  #enqueue(generation: Generation, tokens: readonly Token[]): void {
    if (generation.over) return;
    const { contextTokens } = this.#runner;
    if (tokens.length === 0) this.#fail(generation, emptyPrompt(generation.prompt));
    else if (tokens.length + 1 > contextTokens)
      this.#fail(generation, contextExceeded(generation.prompt, tokens.length, contextTokens));
    else if (generation.encoded(tokens, contextTokens)) {
      this.#seating.add(generation);
      this.#wake();
    } else this.#finish(generation);
  }

  #fail(generation: Generation, error: unknown): void {
    generation.outbox.fail(error);
    this.#finish(generation);
  }

  /** The one way out: its sequence is free before the next turn. */
  #finish(generation: Generation): void {
    if (generation.over) return;
    generation.over = true;
    this.#generations.get(generation)?.();
    this.#generations.delete(generation);
    this.#seating.leave(generation);
    this.#wake();
  }

  async #run(): Promise<void> {
    const closing = this.#closing.signal;
    try {
      while (!closing.aborted) {
        this.#woken = false;
        await this.#settle();
        const { priority } = this.#turns;
        if (priority === undefined) await this.#rest();
        else if (await this.#hold(priority)) await this.#take(this.#turns.next());
      }
      await this.#seating.tidy();
    } catch (error) {
      this.#close(engineFailed(error));
      this.#onEnded({ reason: "the engine failed in a step" });
    }
    this.#cores.release();
  }

  async #settle(): Promise<void> {
    await this.#seating.tidy();
    await this.#seating.admit();
  }

  #hold(priority: Priority): Promise<boolean> {
    return this.#cores.hold(
      priority,
      () => this.#waked(),
      async () => {
        this.#woken = false;
        await this.#settle();
        return this.#closing.signal.aborted ? undefined : this.#turns.priority;
      },
    );
  }

  async #take(turn: Turn | undefined): Promise<void> {
    if (turn?.kind === "step") await this.#step(turn.members);
    else if (turn?.kind === "prefill") await this.#prefill(turn.generation, turn.tokensMax);
    else if (turn?.kind === "embed")
      await turn.embedding.piece(this.#runner, this.#pace, turn.alone, this.#clock);
  }

  async #prefill(generation: Generation, tokensMax: number): Promise<void> {
    const { slot, tokens } = generation;
    if (!slot) return;
    const end = Math.min(slot.length + tokensMax, tokens.length - 1);
    const piece = tokens.slice(slot.length, end);
    await this.#runner.prefill(slot.index, piece);
    slot.append(piece);
    this.#seating.begin(generation);
  }

  async #step(members: readonly Generation[]): Promise<void> {
    const seats = members.flatMap(({ slot, stream, last }) =>
      slot && stream ? [{ slot, stream, last }] : [],
    );
    const outcomes = await this.#runner.step(seats.map(({ stream }) => stream));
    for (const [at, generation] of members.entries()) {
      const seat = seats[at];
      const outcome = outcomes[at];
      if (!seat || !outcome) throw new Error("a step has to answer for each of its streams");
      if (outcome.kind === "failed") {
        seat.slot.distrust();
        this.#fail(generation, own(outcome.error));
        continue;
      }
      seat.slot.append([seat.last]);
      if (generation.over) continue;
      if (generation.accept(outcome)) this.#finish(generation);
      else if (generation.outbox.full) generation.fullSince ??= this.#clock.now();
    }
  }

  #wake(): void {
    this.#woken = true;
    this.#wakeUp();
  }

  /** Resolves with the next `wake`, or at once after one that nobody has seen. */
  #waked(): Promise<void> {
    if (this.#woken) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeUp = resolve;
    });
  }

  /** Nothing can be computed: others may have the cores until somebody comes, reads, or waited long enough. */
  async #rest(): Promise<void> {
    this.#cores.release();
    const at = this.#seating.nextChangeAt;
    const cancel =
      at === undefined
        ? undefined
        : this.#clock.setTimer(Math.max(0, at - this.#clock.now()), () => this.#wake());
    await this.#waked();
    cancel?.();
  }

  #close(error: AssistantError): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(error);
    for (const generation of this.#generations.keys()) this.#fail(generation, error);
    for (const embedding of this.#embeddings) embedding.fail(error);
    this.#embeddings.clear();
    this.#wake();
  }
}

/** What one job is told of a failure that is its own. */
function own(error: unknown): AssistantError {
  return error instanceof AssistantError ? error : engineFailed(error);
}
