import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import type { CoreLease, GenerateJob } from "../../src/assistant/inference/inference-engine.ts";
import { Scheduler } from "../../src/assistant/inference/scheduler/scheduler.ts";
import type { Clock } from "../../src/base/clock.ts";
import { GenerationReader } from "./generation-reader.ts";
import { createTextJob, uncontestedCores } from "./scripted-engine.ts";
import { ScriptedRunner, type ScriptedRunnerOptions } from "./scripted-runner.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** A scheduler over a scripted runner, on a clock that the test moves. */
export class SchedulerHarness {
  readonly clock = new VirtualClock();
  readonly runner: ScriptedRunner;
  readonly scheduler: Scheduler;
  /** Timers that were set and neither ran nor were taken back. */
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

  /** Somebody who reads the answer to a text at once. */
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

  /** Until each of them has come to its end. */
  untilOver(...readers: readonly GenerationReader[]): Promise<void> {
    return this.until(() => readers.every(({ isOver: over }) => over), "all answers are over");
  }

  /** Prompts of each step so far. */
  get steps(): readonly (readonly string[])[] {
    return this.runner.calls.filter(({ kind }) => kind === "step").map(({ prompts }) => prompts);
  }

  /** What stands beside each other at the end of every test: nothing was done wrong, nothing is left. */
  async findLeftovers(): Promise<Record<string, unknown>> {
    // A call that is under way comes to its end.
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

  /** For hooks: throws where something is left, or was done wrong. */
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

/** What `leftovers` are after a test in which all jobs came to an end. */
export const noLeftovers = {
  problems: [],
  openStreams: 0,
  load: { active: 0, queued: 0 },
  timers: 0,
  listeners: 0,
};
