import type { Logger } from "../../../../base/logger.ts";
import { AssistantError } from "../../../assistant-error.ts";
import type {
  CoreLease,
  GenerateEvent,
  GenerateJob,
  LoadedModel,
  ModelEnd,
  ModelFacts,
  ModelLoad,
  RequestPriority,
} from "../../inference-engine.ts";
import type { EmbeddingResult, Prompt, Token } from "../../runner.ts";
import { AsyncQueue } from "./async-queue.ts";
import { CoreLeaseParent } from "./core-lease-parent.ts";
import type { EngineProcess, ProcessEnd } from "./engine-process.ts";
import {
  CREDIT_BATCH,
  deserializeError,
  type FromChild,
  type JobEvent,
  type LoadParams,
  type LoadResult,
  type ToChild,
} from "./ipc.ts";

export interface ChildProcessModelOptions {
  /** The model's process. The model owns it and disposes of it. */
  readonly process: EngineProcess;
  readonly params: LoadParams;
  readonly facts: ModelFacts;
  readonly cores: CoreLease;
  readonly logger: Logger;
}

type JobMessage = Extract<ToChild, { type: "generate" | "embed" | "encode" }>;

/** A model that runs in a separate process. If the process ends, only this model's jobs fail. */
export class ChildProcessModel implements LoadedModel {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly memoryBytes: number;
  readonly ended: Promise<ModelEnd>;
  readonly #process: EngineProcess;
  readonly #params: LoadParams;
  readonly #logger: Logger;
  readonly #cores: CoreLeaseParent;
  readonly #jobs = new Map<number, AsyncQueue<JobEvent>>();
  readonly #startMessages = new AsyncQueue<FromChild>();
  #loaded: LoadResult | undefined;
  #load: ModelLoad = { active: 0, queued: 0 };
  #nextId = 0;
  #loggedQuarters = 0;
  #processEnd: ProcessEnd | undefined;
  #onEnded: (end: ModelEnd) => void = () => {};
  /** The error of every job that is requested after the model has ended; undefined while the model accepts jobs. */
  #endError: AssistantError | undefined;
  #isDisposed = false;

  constructor(options: ChildProcessModelOptions) {
    const { process, params } = options;
    this.id = params.id;
    this.facts = options.facts;
    this.memoryBytes = params.memoryBytes;
    this.#params = params;
    this.#process = process;
    this.#logger = options.logger;
    this.#cores = new CoreLeaseParent(options.cores, (message) => process.send(message));
    process.onMessage((message) => this.#onMessage(message));
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve;
    });
    void this.#awaitProcessEnd();
  }

  /** The end of the process; undefined while the process runs. */
  get processEnd(): ProcessEnd | undefined {
    return this.#processEnd;
  }

  get contextTokens(): number {
    return this.#loaded?.contextTokens ?? this.#params.contextTokens;
  }

  get sequences(): number {
    return this.#loaded?.sequences ?? this.#params.sequences;
  }

  get threads(): number {
    return this.#loaded?.threads ?? this.#params.threadsMax;
  }

  get load(): ModelLoad {
    return this.#jobs.size === 0 ? { active: 0, queued: 0 } : this.#load;
  }

  /**
   * Resolves when the model can answer. Rejects with the process's error, with `engine_failed` if the
   * process ended, or with the signal's reason.
   */
  async start(signal: AbortSignal): Promise<LoadResult> {
    const stop = () => this.#startMessages.fail(signal.reason);
    signal.throwIfAborted();
    signal.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const message = await this.#startMessages.take();
        if (message.type === "ready") this.#process.send({ type: "load", load: this.#params });
        else if (message.type === "refused") throw deserializeError(message.error);
        else if (message.type === "loaded") {
          this.#loaded = message.loaded;
          return message.loaded;
        }
      }
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  async *generate(job: GenerateJob, signal: AbortSignal): AsyncGenerator<GenerateEvent, void> {
    const { id, inbox, end } = this.#startJob(
      (each) => ({ type: "generate", id: each, job }),
      signal,
    );
    let read = 0;
    try {
      for (;;) {
        const message = await inbox.take();
        if ("error" in message) throw deserializeError(message.error);
        if (!("event" in message)) return;
        yield message.event;
        if (++read < CREDIT_BATCH) continue;
        this.#process.send({ type: "credit", id, count: read });
        read = 0;
      }
    } finally {
      end();
    }
  }

  async embed(
    texts: readonly string[],
    { priority }: { readonly priority: RequestPriority },
    signal: AbortSignal,
  ): Promise<EmbeddingResult> {
    const event = await this.#request((id) => ({ type: "embed", id, texts, priority }), signal);
    if ("embedded" in event) return event.embedded;
    throw new Error("the model's process sent an answer of the wrong kind");
  }

  async encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]> {
    const event = await this.#request((id) => ({ type: "encode", id, prompt }), signal);
    if ("tokens" in event) return event.tokens;
    throw new Error("the model's process sent an answer of the wrong kind");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    this.#end(
      new AssistantError("shutting_down", `model "${this.id}" is being unloaded; try again`, {
        retryAfterSeconds: 1,
      }),
    );
    await this.#process[Symbol.asyncDispose]();
  }

  async #awaitProcessEnd(): Promise<void> {
    this.#processEnd = await this.#process.ended;
    const { reason } = this.#processEnd;
    this.#cores[Symbol.dispose]();
    this.#end(
      new AssistantError(
        "engine_failed",
        `the process of model "${this.id}" ended (${reason}), so the request failed; try again`,
        { retryAfterSeconds: 1 },
      ),
    );
    if (!this.#isDisposed) this.#onEnded({ reason });
  }

  async #request(message: (id: number) => JobMessage, signal: AbortSignal): Promise<JobEvent> {
    const { inbox, end } = this.#startJob(message, signal);
    try {
      const event = await inbox.take();
      if ("error" in event) throw deserializeError(event.error);
      return event;
    } finally {
      end();
    }
  }

  /**
   * Sends a new job to the model's process. The caller must call the returned function `end` in every case, because it
   * releases the job.
   */
  #startJob(message: (id: number) => JobMessage, signal: AbortSignal) {
    signal.throwIfAborted();
    if (this.#endError) throw this.#endError;
    const id = this.#nextId++;
    const inbox = new AsyncQueue<JobEvent>();
    const onAbort = () => {
      this.#cancel(id);
      inbox.fail(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#jobs.set(id, inbox);
    this.#process.send(message(id));
    const end = () => {
      signal.removeEventListener("abort", onAbort);
      this.#cancel(id);
    };
    return { id, inbox, end };
  }

  /** Cancels a job; does nothing if the job has ended. */
  #cancel(id: number): void {
    if (this.#jobs.delete(id)) this.#process.send({ type: "cancel", id });
  }

  #onMessage(message: FromChild): void {
    switch (message.type) {
      case "events":
        this.#load = message.load;
        for (const event of message.events) this.#deliver(event);
        break;
      case "hold":
        this.#cores.hold(message.id, message.priority);
        break;
      case "cancel-hold":
        this.#cores.cancelHold(message.id);
        break;
      case "release":
        this.#cores.release();
        break;
      case "broken":
        this.#process.kill(message.reason);
        break;
      case "progress":
        this.#logProgress(message.done);
        break;
      case "pong":
        break;
      default:
        this.#startMessages.push(message);
    }
  }

  #deliver(event: JobEvent): void {
    const inbox = this.#jobs.get(event.id);
    if (!inbox) return;
    if (!("event" in event)) this.#jobs.delete(event.id);
    inbox.push(event);
  }

  #end(error: AssistantError): void {
    if (this.#endError) return;
    this.#endError = error;
    for (const inbox of this.#jobs.values()) inbox.fail(error);
    this.#jobs.clear();
    this.#startMessages.fail(error);
  }

  /** Logs each quarter of the load, because large files take minutes from a slow disk. */
  #logProgress(done: number): void {
    const quarters = Math.floor(done * 4);
    if (quarters <= this.#loggedQuarters) return;
    this.#loggedQuarters = quarters;
    this.#logger.debug({ model: this.id, percent: quarters * 25 }, "a model is being loaded");
  }
}
