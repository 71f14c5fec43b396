import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import type { CoreLease, GenerateJob } from "../../src/assistant/inference/inference-engine.ts";
import { Scheduler } from "../../src/assistant/inference/scheduler/scheduler.ts";
import type { Clock } from "../../src/base/clock.ts";
import { GenerationReader } from "./generation-reader.ts";
import { createTextJob, uncontestedCores } from "./scripted-engine.ts";
import { ScriptedRunner, type ScriptedRunnerOptions } from "./scripted-runner.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** A scheduler with a scripted runner and a clock that the test advances. */
export class SchedulerHarness {
  readonly clock = new VirtualClock();
  readonly runner: ScriptedRunner;
  readonly scheduler: Scheduler;
  /** The number of pending timers. */
  timers = 0;
  readonly #signals: AbortSignal[] = [];

  constructor(
    options: Omit<ScriptedRunnerOptions, "clock"> = {},
    cores: CoreLease = uncontestedCores,
  ) {
    this.runner = new ScriptedRunner({
      clock: this.clock,
      stepMs: 10,
      prefillMs: 10,
      embedMs: 1,
      ...options,
    });
    this.scheduler = new Scheduler({ runner: this.runner, cores, clock: this.#countingClock() });
  }

  /** Requests an answer to a text, and returns a reader that reads the answer as it arrives. */
  ask(
    text: string,
    changes: Partial<GenerateJob> = {},
    abort: AbortController = new AbortController(),
  ): GenerationReader {
    this.#signals.push(abort.signal);
    return new GenerationReader(
      this.scheduler.generate(createTextJob(text, changes), abort.signal),
    );
  }

  askInBackground(
    text: string,
    changes: Partial<GenerateJob> = {},
    abort?: AbortController,
  ): GenerationReader {
    return this.ask(text, { priority: "background", ...changes }, abort);
  }

  until(condition: () => boolean, what: string, limitMs = 3_600_000): Promise<void> {
    return this.clock.until(condition, limitMs, what);
  }

  /** Resolves when the answers of all `readers` have ended. */
  untilOver(...readers: readonly GenerationReader[]): Promise<void> {
    return this.until(() => readers.every(({ isOver: over }) => over), "all answers have ended");
  }

  /** For each decoding step so far, the prompts of the streams that took part. */
  get steps(): readonly (readonly string[])[] {
    return this.runner.calls.filter(({ kind }) => kind === "step").map(({ prompts }) => prompts);
  }

  /**
   * Disposes the scheduler. Returns the calls that violated the contract of `Runner`, and the jobs, streams, timers and
   * listeners that are left.
   */
  async findLeftovers(): Promise<Record<string, unknown>> {
    // Advancing the clock lets the current runner call end.
    await this.clock.advance(30);
    const before = this.scheduler.load;
    await this.scheduler[Symbol.asyncDispose]();
    return {
      problems: this.runner.problems,
      openStreams: this.runner.openStreams,
      load: before,
      timers: this.timers,
      listeners: this.#signals.reduce(
        (sum, signal) => sum + getEventListeners(signal, "abort").length,
        0,
      ),
    };
  }

  /**
   * Disposes the scheduler. Throws if it has left jobs, streams, timers or listeners, or has violated the contract of
   * `Runner`.
   */
  async assertNoLeftovers(): Promise<void> {
    assert.deepEqual(await this.findLeftovers(), noLeftovers);
  }

  #countingClock(): Clock {
    return {
      now: () => this.clock.now(),
      setTimer: (delayMs, callback) => {
        this.timers += 1;
        let pending = true;
        const settle = () => {
          if (pending) this.timers -= 1;
          pending = false;
        };
        const cancel = this.clock.setTimer(delayMs, () => {
          settle();
          callback();
        });
        return () => {
          settle();
          cancel();
        };
      },
    };
  }
}

/** The result of `findLeftovers` after a test in which all jobs ended. */
export const noLeftovers = {
  problems: [],
  openStreams: 0,
  load: { active: 0, queued: 0 },
  timers: 0,
  listeners: 0,
};
