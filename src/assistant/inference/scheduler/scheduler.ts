import type { Clock } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type {
  CoreLease,
  GenerateEvent,
  GenerateJob,
  ModelEnd,
  ModelLoad,
  RequestPriority,
} from "../inference-engine.ts";
import type { EmbeddingResult, Prompt, Runner, Token } from "../runner.ts";
import { CoreShare } from "./core-share.ts";
import { EmbeddingBatchSizer, EmbeddingJob } from "./embedding-job.ts";
import { Generation, type GenerationSlot } from "./generation.ts";
import {
  contextExceededError,
  emptyPromptError,
  engineFailedError,
  noSequencesError,
  shuttingDownError,
} from "./scheduler-errors.ts";
import { SequenceAllocator } from "./sequence-allocator.ts";
import { SequenceSlot } from "./sequence-slot.ts";
import { type RunnerCall, StepPolicy } from "./step-policy.ts";
import { limitTime } from "./time-limit.ts";

export interface SchedulerOptions {
  /** The runner, which only this scheduler uses; its owner disposes of it. */
  readonly runner: Runner;
  readonly cores: CoreLease;
  readonly clock: Clock;
}

/**
 * The time limit of a decoding step and of the prefill of one piece. The longest such call is a piece of 128 tokens of a
 * model with 70 billion parameters, which takes two cores about three minutes. A call that takes longer never ends,
 * and the model would answer no request any more.
 */
const CALL_MS_MAX = 10 * 60_000;

/**
 * Runs one loop that makes all runner calls which touch KV-cache sequences, one after the other. Between two calls it
 * frees the sequences of finished generations and assigns sequences to waiting ones; then StepPolicy chooses the next
 * call. `in-process-model.ts` is the interface for callers.
 */
export class Scheduler implements AsyncDisposable {
  /** Resolves when a runner call has rejected; the model cannot be used after that. */
  readonly ended: Promise<ModelEnd>;

  readonly #runner: Runner;
  readonly #clock: Clock;
  readonly #cores: CoreShare;
  readonly #slots: readonly GenerationSlot[];
  readonly #allocator: SequenceAllocator;
  readonly #policy: StepPolicy;
  readonly #batchSizer = new EmbeddingBatchSizer();
  /** Unfinished generations, each with a function that removes its abort listener. */
  readonly #generations = new Map<Generation, () => void>();
  readonly #embeddings = new Set<EmbeddingJob>();
  readonly #encodings = new Set<Promise<unknown>>();
  /**
   * Aborts when the scheduler ends. The reason is the error with which unfinished generations, embeddings and calls of
   * `encode` then reject.
   */
  readonly #closing = new AbortController();
  readonly #loop: Promise<void>;
  #lastOrder = 0;
  #isWoken = false;
  #onWake: () => void = () => {};
  #onEnded: (end: ModelEnd) => void = () => {};

  constructor({ runner, cores, clock }: SchedulerOptions) {
    this.#runner = runner;
    this.#clock = clock;
    this.#cores = new CoreShare(cores);
    this.#slots = Array.from(
      { length: runner.sequences },
      (_, index) => new SequenceSlot<Generation>(index, runner.pieces),
    );
    this.#allocator = new SequenceAllocator({
      runner,
      clock,
      slots: this.#slots,
      onFailed: (generation, error) => this.#fail(generation, toJobError(error)),
    });
    this.#policy = new StepPolicy(this.#slots, this.#embeddings);
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve;
    });
    this.#loop = this.#run();
  }

  get load(): ModelLoad {
    const active = this.#slots.filter((slot) => slot.owner).length;
    let queued = 0;
    for (const generation of this.#generations.keys()) if (!generation.slot) queued += 1;
    for (const embedding of this.#embeddings) if (!embedding.hasStarted) queued += 1;
    return { active, queued };
  }

  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    this.#lastOrder += 1;
    const generation: Generation = new Generation(this.#lastOrder, job, {
      onStart: () => this.#startGeneration(generation, signal),
      onCancel: () => this.#finish(generation),
      onDrain: () => {
        generation.eventsFullSince = undefined;
        this.#allocator.resume(generation);
        this.#wake();
      },
    });
    return generation.events;
  }

  async embed(
    texts: readonly string[],
    priority: RequestPriority,
    signal: AbortSignal,
  ): Promise<EmbeddingResult> {
    signal.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (texts.length === 0) return { vectors: [], tokens: [] };
    this.#lastOrder += 1;
    const embedding = new EmbeddingJob(this.#lastOrder, texts, priority);
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
    return raceWithAbort(this.#encode(prompt), signal, this.#closing.signal);
  }

  /** Rejects unfinished jobs with `shutting_down`; resolves when the runner is no longer called. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#close(shuttingDownError());
    await this.#loop;
    await Promise.allSettled(this.#encodings);
  }

  #startGeneration(generation: Generation, signal: AbortSignal): void {
    if (signal.aborted || this.#closing.signal.aborted) {
      const { reason } = signal.aborted ? signal : this.#closing.signal;
      generation.isOver = true;
      generation.events.abort(reason);
      return;
    }
    const onAbort = () => {
      generation.events.abort(signal.reason);
      this.#finish(generation);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#generations.set(generation, () => signal.removeEventListener("abort", onAbort));
    if (this.#slots.length === 0) this.#fail(generation, noSequencesError());
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
      // The error rejects only this job: a prompt that the template cannot render does not affect other jobs.
      throw toJobError(error);
    } finally {
      this.#encodings.delete(encoding);
    }
  }

  #enqueue(generation: Generation, tokens: readonly Token[]): void {
    if (generation.isOver) return;
    const { contextTokens } = this.#runner;
    if (tokens.length === 0) this.#fail(generation, emptyPromptError(generation.prompt));
    else if (tokens.length + 1 > contextTokens)
      this.#fail(generation, contextExceededError(generation.prompt, tokens.length, contextTokens));
    else if (generation.setPromptTokens(tokens, contextTokens)) {
      this.#allocator.add(generation);
      this.#wake();
    } else this.#finish(generation);
  }

  #fail(generation: Generation, error: unknown): void {
    generation.events.fail(error);
    this.#finish(generation);
  }

  /**
   * Ends a generation in any state. The KV-cache sequence of the generation becomes free before the next runner call.
   */
  #finish(generation: Generation): void {
    if (generation.isOver) return;
    generation.isOver = true;
    this.#generations.get(generation)?.();
    this.#generations.delete(generation);
    this.#allocator.release(generation);
    this.#wake();
  }

  async #run(): Promise<void> {
    const closing = this.#closing.signal;
    try {
      while (!closing.aborted) {
        this.#isWoken = false;
        await this.#reassignSequences();
        const { priority } = this.#policy;
        if (priority === undefined) await this.#idle();
        else if (await this.#holdCores(priority)) await this.#runCall(this.#policy.next());
      }
      await this.#allocator.releaseFinished();
    } catch (error) {
      this.#close(engineFailedError(error));
      this.#onEnded({
        reason:
          error instanceof CallTimeoutError
            ? error.message
            : "a call to the inference engine failed",
      });
    }
    this.#cores.release();
  }

  async #reassignSequences(): Promise<void> {
    await this.#allocator.releaseFinished();
    await this.#allocator.assignSequences();
  }

  #holdCores(priority: RequestPriority): Promise<boolean> {
    return this.#cores.hold(
      priority,
      () => this.#waitForWake(),
      async () => {
        this.#isWoken = false;
        await this.#reassignSequences();
        return this.#closing.signal.aborted ? undefined : this.#policy.priority;
      },
    );
  }

  async #runCall(call: RunnerCall | undefined): Promise<void> {
    if (call?.kind === "step") await this.#limit(this.#step(call.members));
    else if (call?.kind === "prefill")
      await this.#limit(this.#prefill(call.generation, call.count));
    else if (call?.kind === "embed")
      await call.embedding.runPiece(this.#runner, this.#batchSizer, call.alone, this.#clock);
  }

  #limit(call: Promise<void>): Promise<void> {
    return limitTime(call, CALL_MS_MAX, this.#clock, () => new CallTimeoutError());
  }

  async #prefill(generation: Generation, count: number): Promise<void> {
    const { slot, tokens } = generation;
    if (!slot) return;
    const piece = tokens.slice(slot.length, slot.length + count);
    await this.#runner.prefill(slot.index, piece);
    slot.append(piece, generation.promptTokens);
    this.#allocator.startStream(generation);
  }

  async #step(members: readonly Generation[]): Promise<void> {
    const stepSlots = members.flatMap(({ slot, stream, lastToken: last }) =>
      slot && stream ? [{ slot, stream, last }] : [],
    );
    const outcomes = await this.#runner.step(stepSlots.map(({ stream }) => stream));
    for (const [at, generation] of members.entries()) {
      const stepSlot = stepSlots[at];
      const outcome = outcomes[at];
      if (!stepSlot || !outcome) throw new Error("the runner returned no outcome for a stream");
      if (outcome.kind === "failed") {
        stepSlot.slot.invalidate();
        this.#fail(generation, toJobError(outcome.error));
        continue;
      }
      stepSlot.slot.append([stepSlot.last], generation.promptTokens);
      if (generation.isOver) continue;
      if (generation.accept(outcome)) this.#finish(generation);
      else if (generation.events.isFull) generation.eventsFullSince ??= this.#clock.now();
    }
  }

  #wake(): void {
    this.#isWoken = true;
    this.#onWake();
  }

  /** Resolves at the next `#wake`, or at once if `#wake` was called after the loop last began to look for work. */
  #waitForWake(): Promise<void> {
    if (this.#isWoken) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onWake = resolve;
    });
  }

  /** Releases the cores and waits until a job arrives, a reader catches up, or an eviction is due. */
  async #idle(): Promise<void> {
    this.#cores.release();
    const at = this.#allocator.nextEvictionAt;
    const cancel =
      at === undefined
        ? undefined
        : this.#clock.setTimer(Math.max(0, at - this.#clock.now()), () => this.#wake());
    await this.#waitForWake();
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

class CallTimeoutError extends Error {
  constructor() {
    super(`a call to the inference engine did not end within ${CALL_MS_MAX / 60_000} minutes`);
    this.name = "CallTimeoutError";
  }
}

/** Converts a failure of one job into the error that its caller receives. */
function toJobError(error: unknown): AssistantError {
  return error instanceof AssistantError ? error : engineFailedError(error);
}
