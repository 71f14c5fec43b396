import type { LoadedModel } from "../../inference-engine.ts";
import {
  EVENT_CREDIT_MAX,
  type FromChild,
  type JobEvent,
  serializeError,
  type ToChild,
} from "./ipc.ts";

type Job = Extract<ToChild, { type: "generate" | "embed" | "encode" }>;

export interface JobServerOptions {
  readonly model: LoadedModel;
  readonly send: (message: FromChild) => void;
  /** Receives errors of which callers only get a general message. */
  readonly onError: (error: unknown) => void;
}

/**
 * Tokens that follow each other faster than this are sent in one message. The delay is shorter than the
 * refresh of any screen, and one message per token costs a small model a third of its speed. First and
 * last events are sent at once.
 */
const COALESCE_MS = 4;

interface RunningJob {
  readonly abort: AbortController;
  /** The number of events that may still be sent before the caller must read some. */
  credit: number;
  onCredit: () => void;
}

/**
 * Runs jobs in the model's process and sends their events to the parent, where one message holds the events of several
 * jobs.
 */
export class JobServer {
  readonly #options: JobServerOptions;
  readonly #running = new Map<number, RunningJob>();
  #events: JobEvent[] = [];
  #flushing: "no" | "soon" | "at once" = "no";
  #flushedAt = 0;

  constructor(options: JobServerOptions) {
    this.#options = options;
  }

  /** Starts a job and returns at once. */
  run(job: Job): void {
    const running: RunningJob = {
      abort: new AbortController(),
      credit: EVENT_CREDIT_MAX,
      onCredit: () => {},
    };
    this.#running.set(job.id, running);
    void this.#runJob(job, running);
  }

  addCredit(id: number, count: number): void {
    const running = this.#running.get(id);
    if (!running) return;
    running.credit += count;
    running.onCredit();
  }

  cancel(id: number): void {
    this.#running.get(id)?.abort.abort();
  }

  async #runJob(job: Job, running: RunningJob): Promise<void> {
    const { signal } = running.abort;
    try {
      const last = await this.#compute(job, running);
      if (!signal.aborted) this.#events.push(last);
    } catch (error) {
      if (!signal.aborted) {
        this.#events.push({ id: job.id, error: serializeError(error, this.#options.onError) });
      }
    } finally {
      this.#running.delete(job.id);
      // The message is sent even without events, because it also reports the numbers of active and queued jobs, which
      // have changed.
      this.#flushSoon(true);
    }
  }

  async #compute(job: Job, running: RunningJob): Promise<JobEvent> {
    const { id } = job;
    const { model } = this.#options;
    const { signal } = running.abort;
    switch (job.type) {
      case "embed":
        return { id, embedded: await model.embed(job.texts, { priority: job.priority }, signal) };
      case "encode":
        return { id, tokens: await model.encode(job.prompt, signal) };
      default: {
        let isFirst = true;
        for await (const event of model.generate(job.job, signal)) {
          if (signal.aborted) break;
          this.#events.push({ id, event });
          this.#flushSoon(isFirst);
          isFirst = event.type === "started";
          running.credit--;
          while (running.credit <= 0 && !signal.aborted) await waitForCredit(running);
        }
        return { id, done: true };
      }
    }
  }

  /** Schedules one message for all streams of a decoding step, because each message costs a system call and a copy. */
  #flushSoon(atOnce: boolean): void {
    if (this.#flushing === "at once" || (this.#flushing === "soon" && !atOnce)) return;
    const waitMs = this.#flushedAt + COALESCE_MS - performance.now();
    if (atOnce || waitMs <= 0) {
      this.#flushing = "at once";
      setImmediate(() => this.#flush());
    } else {
      this.#flushing = "soon";
      setTimeout(() => {
        if (this.#flushing === "soon") this.#flush();
      }, waitMs);
    }
  }

  #flush(): void {
    const events = this.#events;
    this.#events = [];
    this.#flushing = "no";
    this.#flushedAt = performance.now();
    this.#options.send({ type: "events", events, load: { ...this.#options.model.load } });
  }
}

function waitForCredit(running: RunningJob): Promise<void> {
  return new Promise((resolve) => {
    const { signal } = running.abort;
    const onReady = () => {
      signal.removeEventListener("abort", onReady);
      running.onCredit = () => {};
      resolve();
    };
    running.onCredit = onReady;
    signal.addEventListener("abort", onReady, { once: true });
  });
}
