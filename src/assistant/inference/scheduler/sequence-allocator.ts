import type { Clock } from "../../../base/clock.ts";
import type { Runner, TokenStream } from "../runner.ts";
import type { Generation, GenerationSlot } from "./generation.ts";
import { chooseSlot } from "./sequence-slot.ts";
import { OVERTAKEN_MAX, WaitingQueue } from "./waiting-queue.ts";

/** A reader may stall this long before its generation loses the KV-cache sequence to a waiting generation. */
export const STALLED_READER_MAX_MS = 5_000;

/**
 * A background job that got its KV-cache sequence by ageing is not evicted before it has generated this many more
 * tokens.
 */
const AGED_TOKENS = 32;

export interface SequenceAllocatorOptions {
  readonly runner: Runner;
  readonly clock: Clock;
  readonly slots: readonly GenerationSlot[];
  /** Called when the token stream of `generation` cannot start or resume. Other generations continue. */
  onFailed(generation: Generation, error: unknown): void;
}

/**
 * Assigns the runner's KV-cache sequences to generations. `releaseFinished` and `assignSequences` call the runner, so
 * the scheduler calls them only between two of the runner's calls; the other methods may be called at any time and take
 * effect with the next call of one of those two.
 */
export class SequenceAllocator {
  readonly #options: SequenceAllocatorOptions;
  readonly #waiting = new WaitingQueue();
  /** Streams of finished generations, still to be closed. */
  readonly #finishedStreams: TokenStream[] = [];
  #uses = 0;

  constructor(options: SequenceAllocatorOptions) {
    this.#options = options;
  }

  add(generation: Generation): void {
    this.#waiting.add(generation);
  }

  /**
   * Removes a finished generation from the queue. `releaseFinished` then closes its stream and frees its KV-cache
   * sequence.
   */
  release(generation: Generation): void {
    this.#waiting.remove(generation);
    if (generation.stream) this.#finishedStreams.push(generation.stream);
    generation.stream = undefined;
  }

  /** Queues a generation whose reader has caught up, if it lost its KV-cache sequence meanwhile. */
  resume(generation: Generation): void {
    if (!generation.slot && !generation.isOver) this.#waiting.add(generation);
  }

  /** Closes the streams of finished generations and frees their KV-cache sequences. */
  async releaseFinished(): Promise<void> {
    for (let stream = this.#finishedStreams.pop(); stream; stream = this.#finishedStreams.pop())
      await stream.close();
    // `owner.isOver` cannot change during this loop, because the loop awaits nothing. So every released sequence
    // belongs to a generation whose stream the first loop has closed.
    for (const slot of this.#options.slots) if (slot.owner?.isOver) this.#releaseSlot(slot);
  }

  /**
   * Assigns free KV-cache sequences to waiting generations. If none is free, evicts another generation if `#canEvict`
   * permits it.
   */
  async assignSequences(): Promise<void> {
    for (;;) {
      const first = this.#waiting.next;
      if (!first) return;
      const slot = chooseSlot(this.#options.slots, first);
      if (slot) {
        await this.#assign(first, slot);
        continue;
      }
      const change = this.#findPreemption();
      if (!change) return;
      const freed = await this.#evict(change.victim);
      // The freed KV-cache sequence goes to `change.next`, for which another generation was evicted, even if a
      // background job is first in the queue. That background job gets the next sequence that becomes free without an
      // eviction.
      if (freed && !change.next.isOver) await this.#assign(change.next, freed);
    }
  }

  /** Starts or resumes the generation's token stream if all of its tokens but the last have been evaluated. */
  startStream(generation: Generation): void {
    const { slot, stream } = generation;
    if (!slot || generation.isOver || generation.unreadTokens > 0) return;
    try {
      if (!stream)
        generation.stream = this.#options.runner.start(
          slot.index,
          generation.lastToken,
          generation.sampling,
        );
      else if (generation.isSuspended) stream.resume(slot.index, generation.lastToken);
    } catch (error) {
      this.#options.onFailed(generation, error);
      return;
    }
    generation.isSuspended = false;
    generation.emitStarted();
  }

  /**
   * The time, in milliseconds since the Unix epoch, at which a waiting generation may take over the KV-cache sequence
   * of a generation whose reader has stalled; undefined if no generation waits or no reader is stalled.
   */
  get nextEvictionAt(): number | undefined {
    if (this.#waiting.size === 0) return undefined;
    let earliest: number | undefined;
    for (const { owner: generation } of this.#options.slots) {
      if (generation?.eventsFullSince === undefined || generation.isOver) continue;
      earliest = Math.min(earliest ?? Number.POSITIVE_INFINITY, generation.eventsFullSince);
    }
    return earliest === undefined ? undefined : earliest + STALLED_READER_MAX_MS;
  }

  async #assign(generation: Generation, slot: GenerationSlot): Promise<void> {
    this.#waiting.remove(generation);
    this.#countOvertaking(generation);
    slot.owner = generation;
    generation.assignSlot(slot, await slot.truncateFor(this.#options.runner, generation));
    this.startStream(generation);
  }

  #countOvertaking(generation: Generation): void {
    if (generation.priority === "interactive") {
      if (this.#waiting.nextBackground) this.#waiting.nextBackground.overtakenCount += 1;
    } else if (generation.overtakenCount >= OVERTAKEN_MAX) {
      generation.overtakenCount = 0;
      generation.protectedTokens = generation.completionTokens + AGED_TOKENS;
    }
  }

  /**
   * Finds the first waiting generation that may take the KV-cache sequence of another generation, and that other
   * generation.
   */
  #findPreemption(): { next: Generation; victim: Generation } | undefined {
    for (const next of [this.#waiting.nextInteractive, this.#waiting.nextBackground]) {
      const victim = next && this.#findVictim(next);
      if (victim) return { next, victim };
    }
    return undefined;
  }

  #findVictim(next: Generation): Generation | undefined {
    let victim: Generation | undefined;
    for (const { owner: generation } of this.#options.slots) {
      if (!generation || generation.isOver || !this.#canEvict(generation, next)) continue;
      if (!victim || isEvictedBefore(generation, victim)) victim = generation;
    }
    return victim;
  }

  #canEvict(generation: Generation, next: Generation): boolean {
    const { eventsFullSince: fullSince } = generation;
    if (fullSince !== undefined && this.#options.clock.now() - fullSince >= STALLED_READER_MAX_MS)
      return true;
    if (generation.priority === "interactive" || next.priority === "background") return false;
    return fullSince !== undefined || generation.completionTokens >= generation.protectedTokens;
  }

  /**
   * Takes the KV-cache sequence away from a generation, which must then wait for another one. Resolves to the freed
   * sequence, or to undefined if the generation finished meanwhile.
   */
  async #evict(generation: Generation): Promise<GenerationSlot | undefined> {
    const { slot, stream } = generation;
    if (stream && slot?.rule.isExact) {
      generation.stream = undefined;
      generation.restart();
      await stream.close();
    } else if (stream && !generation.isSuspended) {
      generation.isSuspended = true;
      await stream.suspend();
    }
    if (generation.isOver || !slot) return undefined;
    this.#releaseSlot(slot);
    generation.slot = undefined;
    if (generation.priority === "background") generation.overtakenCount += 1;
    // A stalled generation is queued again when its reader has caught up.
    if (!generation.events.isFull) this.#waiting.add(generation);
    return slot;
  }

  #releaseSlot(slot: GenerationSlot): void {
    this.#uses += 1;
    slot.usedAt = this.#uses;
    slot.owner = undefined;
  }
}

/**
 * Returns true if `one` is evicted before `other`. Stalled generations are evicted first, then background generations;
 * among equal generations, the youngest is evicted first.
 */
function isEvictedBefore(one: Generation, other: Generation): boolean {
  const isStalled =
    Number(one.eventsFullSince !== undefined) - Number(other.eventsFullSince !== undefined);
  if (isStalled !== 0) return isStalled > 0;
  const isBackground =
    Number(one.priority === "background") - Number(other.priority === "background");
  return isBackground !== 0 ? isBackground > 0 : one.order > other.order;
}
