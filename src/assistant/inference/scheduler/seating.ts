import type { Clock } from "../../../base/clock.ts";
import type { Runner, Stream } from "../runner.ts";
import type { Generation, Seat } from "./generation.ts";
import { chooseSlot } from "./slot.ts";
import { OVERTAKEN_MAX, Waiting } from "./waiting.ts";

/** For so long a reader may let its sequence stand still before somebody else gets it. */
export const STANDSTILL_MAX_MS = 5_000;

/** A background job that got its sequence by ageing keeps it until it has said so many tokens more. */
const AGED_TOKENS = 32;

export interface SeatingOptions {
  readonly runner: Runner;
  readonly clock: Clock;
  readonly slots: readonly Seat[];
  /** A stream could not begin: this generation alone has failed. */
  onFailed(generation: Generation, error: unknown): void;
}

/**
 * Who has which sequence. `tidy` and `admit` call the runner, so only the barrier calls them, between two
 * turns; all else may happen at any time and takes effect with the next of them.
 */
export class Seating {
  readonly #runner: Runner;
  readonly #clock: Clock;
  readonly #slots: readonly Seat[];
  readonly #onFailed: (generation: Generation, error: unknown) => void;
  readonly #waiting = new Waiting();
  /** Of generations that are over. */
  readonly #streams: Stream[] = [];
  #uses = 0;

  constructor(options: SeatingOptions) {
    this.#runner = options.runner;
    this.#clock = options.clock;
    this.#slots = options.slots;
    this.#onFailed = (generation, error) => options.onFailed(generation, error);
  }

  add(generation: Generation): void {
    this.#waiting.add(generation);
  }

  /** It is over; `tidy` frees what it has. */
  leave(generation: Generation): void {
    this.#waiting.remove(generation);
    if (generation.stream) this.#streams.push(generation.stream);
    generation.stream = undefined;
  }

  /** Its reader has room again: one that lost its sequence meanwhile wants one. */
  resume(generation: Generation): void {
    if (generation.stream && !generation.slot) this.#waiting.add(generation);
  }

  /** Frees the sequences of those who are over. */
  async tidy(): Promise<void> {
    for (let stream = this.#streams.pop(); stream; stream = this.#streams.pop())
      await stream.close();
    // From here on nothing waits: who is over now has no stream open.
    for (const slot of this.#slots) if (slot.owner?.over) this.#free(slot);
  }

  /** Gives sequences to those who wait, as far as there are any or can be made. */
  async admit(): Promise<void> {
    for (;;) {
      const first = this.#waiting.first;
      if (!first) return;
      const slot = chooseSlot(this.#slots, first.tokens);
      if (slot) {
        await this.#seat(first, slot);
        continue;
      }
      const change = this.#change();
      if (!change) return;
      const freed = await this.#evict(change.victim);
      // Also where an aged one waits: that one gets the next that is free by itself.
      if (freed && !change.next.over) await this.#seat(change.next, freed);
    }
  }

  /** Begins, or goes on, once everything but the last token has been read. */
  begin(generation: Generation): void {
    const { slot, stream } = generation;
    if (!slot || generation.over || generation.unreadTokens > 0) return;
    try {
      if (!stream)
        generation.stream = this.#runner.start(slot.index, generation.last, generation.sampling);
      else if (generation.suspended) stream.resume(slot.index, generation.last);
    } catch (error) {
      this.#onFailed(generation, error);
      return;
    }
    generation.suspended = false;
    generation.tellStarted();
  }

  /** When somebody who waits may take the sequence of somebody who does not read; undefined: nobody will. */
  get nextChangeAt(): number | undefined {
    if (this.#waiting.size === 0) return undefined;
    let earliest: number | undefined;
    for (const { owner: generation } of this.#slots) {
      if (generation?.fullSince === undefined || generation.over) continue;
      earliest = Math.min(earliest ?? Number.POSITIVE_INFINITY, generation.fullSince);
    }
    return earliest === undefined ? undefined : earliest + STANDSTILL_MAX_MS;
  }

  async #seat(generation: Generation, slot: Seat): Promise<void> {
    this.#waiting.remove(generation);
    this.#countOvertaking(generation);
    slot.owner = generation;
    generation.seated(slot, await slot.fit(this.#runner, generation.tokens));
    this.begin(generation);
  }

  #countOvertaking(generation: Generation): void {
    if (generation.priority === "interactive") {
      if (this.#waiting.background) this.#waiting.background.overtaken += 1;
    } else if (generation.overtaken >= OVERTAKEN_MAX) {
      generation.overtaken = 0;
      generation.protectedTokens = generation.completionTokens + AGED_TOKENS;
    }
  }

  /** Who could go on in whose place. */
  #change(): { next: Generation; victim: Generation } | undefined {
    for (const next of [this.#waiting.interactive, this.#waiting.background]) {
      const victim = next && this.#victim(next);
      if (victim) return { next, victim };
    }
    return undefined;
  }

  #victim(next: Generation): Generation | undefined {
    let victim: Generation | undefined;
    for (const { owner: generation } of this.#slots) {
      if (!generation || generation.over || !this.#mayGo(generation, next)) continue;
      if (!victim || goesBefore(generation, victim)) victim = generation;
    }
    return victim;
  }

  #mayGo(generation: Generation, next: Generation): boolean {
    const { fullSince } = generation;
    if (fullSince !== undefined && this.#clock.now() - fullSince >= STANDSTILL_MAX_MS) return true;
    if (generation.priority === "interactive" || next.priority === "background") return false;
    return fullSince !== undefined || generation.completionTokens >= generation.protectedTokens;
  }

  /** Takes the sequence away and lets the generation wait for another. Undefined: it is over meanwhile. */
  async #evict(generation: Generation): Promise<Seat | undefined> {
    const { slot, stream } = generation;
    if (stream && !generation.suspended) {
      generation.suspended = true;
      await stream.suspend();
    }
    if (generation.over || !slot) return undefined;
    this.#free(slot);
    generation.slot = undefined;
    if (generation.priority === "background") generation.overtaken += 1;
    // Who does not read waits for its reader first.
    if (!generation.outbox.full) this.#waiting.add(generation);
    return slot;
  }

  #free(slot: Seat): void {
    this.#uses += 1;
    slot.usedAt = this.#uses;
    slot.owner = undefined;
  }
}

/** Who does not read goes first, then background, and of these the youngest. */
function goesBefore(one: Generation, other: Generation): boolean {
  const standsStill = Number(one.fullSince !== undefined) - Number(other.fullSince !== undefined);
  if (standsStill !== 0) return standsStill > 0;
  const isBackground =
    Number(one.priority === "background") - Number(other.priority === "background");
  return isBackground !== 0 ? isBackground > 0 : one.order > other.order;
}
