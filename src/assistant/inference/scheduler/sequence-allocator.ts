import type { Clock } from "../../../base/clock.ts";
import type { Runner, TokenStream } from "../runner.ts";
import type { Generation, GenerationSlot } from "./generation.ts";
import { chooseSlot } from "./sequence-slot.ts";
import { OVERTAKEN_MAX, WaitingQueue } from "./waiting-queue.ts";

/** For so long a reader may let its sequence stand still before somebody else gets it. */
export const STALLED_READER_MAX_MS = 5_000;

/** A background job that got its sequence by ageing keeps it until it has said so many tokens more. */
const AGED_TOKENS = 32;

export interface SequenceAllocatorOptions {
  readonly runner: Runner;
  readonly clock: Clock;
  readonly slots: readonly GenerationSlot[];
  /** A stream could not begin: this generation alone has failed. */
  onFailed(generation: Generation, error: unknown): void;
}

/**
 * Who has which sequence. `tidy` and `admit` call the runner, so only the barrier calls them, between two
 * turns; all else may happen at any time and takes effect with the next of them.
 */
export class SequenceAllocator {
  readonly #runner: Runner;
  readonly #clock: Clock;
  readonly #slots: readonly GenerationSlot[];
  readonly #onFailed: (generation: Generation, error: unknown) => void;
  readonly #waiting = new WaitingQueue();
  /** Of generations that are over. */
  readonly #finishedStreams: TokenStream[] = [];
  #uses = 0;

  constructor(options: SequenceAllocatorOptions) {
    this.#runner = options.runner;
    this.#clock = options.clock;
    this.#slots = options.slots;
    this.#onFailed = (generation, error) => options.onFailed(generation, error);
  }

  add(generation: Generation): void {
    this.#waiting.add(generation);
  }

  /** It is over; `tidy` frees what it has. */
  release(generation: Generation): void {
    this.#waiting.remove(generation);
    if (generation.stream) this.#finishedStreams.push(generation.stream);
    generation.stream = undefined;
  }

  /** Its reader has room again: one that lost its sequence meanwhile wants one. */
  resume(generation: Generation): void {
    if (generation.stream && !generation.slot) this.#waiting.add(generation);
  }

  /** Frees the sequences of those who are over. */
  async releaseFinished(): Promise<void> {
    for (let stream = this.#finishedStreams.pop(); stream; stream = this.#finishedStreams.pop())
      await stream.close();
    // From here on nothing waits: who is over now has no stream open.
    for (const slot of this.#slots) if (slot.owner?.isOver) this.#releaseSlot(slot);
  }

  /** Gives sequences to those who wait, as far as there are any or can be made. */
  async assignSequences(): Promise<void> {
    for (;;) {
      const first = this.#waiting.next;
      if (!first) return;
      const slot = chooseSlot(this.#slots, first.tokens);
      if (slot) {
        await this.#assign(first, slot);
        continue;
      }
      const change = this.#findPreemption();
      if (!change) return;
      const freed = await this.#evict(change.victim);
      // Also where an aged one waits: that one gets the next that is free by itself.
      if (freed && !change.next.isOver) await this.#assign(change.next, freed);
    }
  }

  /** Begins, or goes on, once everything but the last token has been read. */
  startStream(generation: Generation): void {
    const { slot, stream } = generation;
    if (!slot || generation.isOver || generation.unreadTokens > 0) return;
    try {
      if (!stream)
        generation.stream = this.#runner.start(
          slot.index,
          generation.lastToken,
          generation.sampling,
        );
      else if (generation.isSuspended) stream.resume(slot.index, generation.lastToken);
    } catch (error) {
      this.#onFailed(generation, error);
      return;
    }
    generation.isSuspended = false;
    generation.emitStarted();
  }

  /** When somebody who waits may take the sequence of somebody who does not read; undefined: nobody will. */
  get nextEvictionAt(): number | undefined {
    if (this.#waiting.size === 0) return undefined;
    let earliest: number | undefined;
    for (const { owner: generation } of this.#slots) {
      if (generation?.eventsFullSince === undefined || generation.isOver) continue;
      earliest = Math.min(earliest ?? Number.POSITIVE_INFINITY, generation.eventsFullSince);
    }
    return earliest === undefined ? undefined : earliest + STALLED_READER_MAX_MS;
  }

  async #assign(generation: Generation, slot: GenerationSlot): Promise<void> {
    this.#waiting.remove(generation);
    this.#countOvertaking(generation);
    slot.owner = generation;
    generation.assignSlot(slot, await slot.truncateToPrefix(this.#runner, generation.tokens));
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

  /** Who could go on in whose place. */
  #findPreemption(): { next: Generation; victim: Generation } | undefined {
    for (const next of [this.#waiting.nextInteractive, this.#waiting.nextBackground]) {
      const victim = next && this.#findVictim(next);
      if (victim) return { next, victim };
    }
    return undefined;
  }

  #findVictim(next: Generation): Generation | undefined {
    let victim: Generation | undefined;
    for (const { owner: generation } of this.#slots) {
      if (!generation || generation.isOver || !this.#canEvict(generation, next)) continue;
      if (!victim || isEvictedBefore(generation, victim)) victim = generation;
    }
    return victim;
  }

  #canEvict(generation: Generation, next: Generation): boolean {
    const { eventsFullSince: fullSince } = generation;
    if (fullSince !== undefined && this.#clock.now() - fullSince >= STALLED_READER_MAX_MS)
      return true;
    if (generation.priority === "interactive" || next.priority === "background") return false;
    return fullSince !== undefined || generation.completionTokens >= generation.protectedTokens;
  }

  /** Takes the sequence away and lets the generation wait for another. Undefined: it is over meanwhile. */
  async #evict(generation: Generation): Promise<GenerationSlot | undefined> {
    const { slot, stream } = generation;
    if (stream && !generation.isSuspended) {
      generation.isSuspended = true;
      await stream.suspend();
    }
    if (generation.isOver || !slot) return undefined;
    this.#releaseSlot(slot);
    generation.slot = undefined;
    if (generation.priority === "background") generation.overtakenCount += 1;
    // Who does not read waits for its reader first.
    if (!generation.events.isFull) this.#waiting.add(generation);
    return slot;
  }

  #releaseSlot(slot: GenerationSlot): void {
    this.#uses += 1;
    slot.usedAt = this.#uses;
    slot.owner = undefined;
  }
}

/** Who does not read goes first, then background, and of these the youngest. */
function isEvictedBefore(one: Generation, other: Generation): boolean {
  const standsStill =
    Number(one.eventsFullSince !== undefined) - Number(other.eventsFullSince !== undefined);
  if (standsStill !== 0) return standsStill > 0;
  const isBackground =
    Number(one.priority === "background") - Number(other.priority === "background");
  return isBackground !== 0 ? isBackground > 0 : one.order > other.order;
}
