import type { Clock } from "../../../base/clock.ts";
import type {
  Cores,
  GenerateEvent,
  GenerateJob,
  ModelEnd,
  ModelLoad,
  Priority,
} from "../engine.ts";
import type { Embedded, Prompt, Runner, Token } from "../runner.ts";

export interface SchedulerOptions {
  /** Driven by this scheduler alone; disposing it is left to its owner. */
  readonly runner: Runner;
  readonly cores: Cores;
  readonly clock: Clock;
}

/** See local-model.ts for what callers see of it. */
export class Scheduler implements AsyncDisposable {
  readonly ended: Promise<ModelEnd> = new Promise(() => {});

  constructor(_options: SchedulerOptions) {
    throw new Error("to be written");
  }

  get load(): ModelLoad {
    throw new Error("to be written");
  }

  generate(_job: GenerateJob, _signal: AbortSignal): AsyncIterable<GenerateEvent> {
    throw new Error("to be written");
  }

  embed(_texts: readonly string[], _priority: Priority, _signal: AbortSignal): Promise<Embedded> {
    throw new Error("to be written");
  }

  encode(_prompt: Prompt, _signal: AbortSignal): Promise<readonly Token[]> {
    throw new Error("to be written");
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
