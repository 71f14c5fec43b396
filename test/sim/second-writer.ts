import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import type { FakeCall, FakeFaults } from "../support/fake-runtime.ts";
import { Dice } from "../support/random.ts";

/**
 * The minimum time between a write of the old lease holder and the first write of the new one. Without faults it is 15
 * s, counted from the last moment at which the old holder may write. It is shorter here, because a simulated fault can
 * delay that last write.
 */
const HANDOVER_MS = 10_000;

/**
 * A second Berth on a copy of the data directory, with the same identity on the same engine, which starts and ends
 * at random. It may write to the engine only while the first Berth does not.
 */
export class SecondWriter {
  readonly #first: ControlPlaneHarness;
  readonly #problems: string[];
  readonly #dice: Dice;
  #second: ControlPlaneHarness | undefined;
  #last: { writer: string; atMs: number } | undefined;

  constructor(first: ControlPlaneHarness, seed: number, problems: string[]) {
    this.#first = first;
    this.#problems = problems;
    // The second Berth has its own random generator, so that it does not change the other faults of a seed.
    this.#dice = new Dice(seed + 7_919);
  }

  /** Starts or ends the second Berth at random. */
  async step(): Promise<void> {
    if (this.#second) {
      if (this.#dice.chance(0.15)) await this.end();
      return;
    }
    if (!this.#dice.chance(0.05) || this.#first.isDead) return;
    this.#second = new ControlPlaneHarness({ copyOf: this.#first, random: this.#dice.random });
    const faults: FakeFaults = { beforeCall: (call) => this.observe("the second", call) };
    this.#second.boot(faults);
  }

  async end(): Promise<void> {
    await this.#second?.[Symbol.asyncDispose]();
    this.#second = undefined;
  }

  /** Records a call of one of the two servers. They must never write at the same time. */
  observe(writer: string, call: FakeCall): void {
    if (call.kind !== "write") return;
    const atMs = this.#first.clock.now();
    const last = this.#last;
    if (last && last.writer !== writer && atMs - last.atMs < HANDOVER_MS)
      this.#problems.push(
        `${writer} called ${call.name} ${atMs - last.atMs} ms after ${last.writer} wrote`,
      );
    this.#last = { writer, atMs };
  }
}
