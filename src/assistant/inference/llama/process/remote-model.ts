import type { Logger } from "../../../../base/logger.ts";
import { AssistantError } from "../../../errors.ts";
import type {
  Cores,
  GenerateEvent,
  GenerateJob,
  LoadedModel,
  ModelEnd,
  ModelFacts,
  ModelLoad,
  Priority,
} from "../../engine.ts";
import type { Embedded, Prompt, Token } from "../../runner.ts";
import type { EngineProcess, ProcessEnd } from "./engine-process.ts";
import { Inbox } from "./inbox.ts";
import { LentCores } from "./lent-cores.ts";
import {
  type FromChild,
  type Loaded,
  type LoadOrder,
  type News,
  TAKEN_AT_ONCE,
  type ToChild,
  unpackError,
} from "./wire.ts";

export interface RemoteModelOptions {
  /** Belongs to the model from now on. */
  readonly process: EngineProcess;
  readonly order: LoadOrder;
  readonly facts: ModelFacts;
  readonly cores: Cores;
  readonly logger: Logger;
}

type JobMessage = Extract<ToChild, { type: "generate" | "embed" | "encode" }>;

/** A model in a process of its own. What happens to that process happens to its jobs, and to nothing else. */
export class RemoteModel implements LoadedModel {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly memoryBytes: number;
  readonly ended: Promise<ModelEnd>;
  readonly #process: EngineProcess;
  readonly #order: LoadOrder;
  readonly #logger: Logger;
  readonly #cores: LentCores;
  readonly #jobs = new Map<number, Inbox<News>>();
  readonly #starting = new Inbox<FromChild>();
  #loaded: Loaded | undefined;
  #load: ModelLoad = { active: 0, queued: 0 };
  #nextId = 0;
  #loggedQuarters = 0;
  #processEnd: ProcessEnd | undefined;
  #onEnded: (end: ModelEnd) => void = () => {};
  /** Why there are no jobs any more. */
  #over: AssistantError | undefined;
  #disposed = false;

  constructor(options: RemoteModelOptions) {
    const { process, order } = options;
    this.id = order.id;
    this.facts = options.facts;
    this.memoryBytes = order.memoryBytes;
    this.#order = order;
    this.#process = process;
    this.#logger = options.logger;
    this.#cores = new LentCores(options.cores, (message) => process.send(message));
    process.onMessage((message) => this.#hear(message));
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve;
    });
    void this.#follow();
  }

  /** How the process ended, once it has. */
  get processEnd(): ProcessEnd | undefined {
    return this.#processEnd;
  }

  get contextTokens(): number {
    return this.#loaded?.contextTokens ?? this.#order.contextTokens;
  }

  get sequences(): number {
    return this.#loaded?.sequences ?? this.#order.sequences;
  }

  get threads(): number {
    return this.#loaded?.threads ?? this.#order.threadsMax;
  }

  get load(): ModelLoad {
    return this.#jobs.size === 0 ? { active: 0, queued: 0 } : this.#load;
  }

  /**
   * Resolves when the model can answer. Rejects with what the process says of the file, with
   * `model_unusable` where it did not survive it, or with the signal's reason.
   */
  async start(signal: AbortSignal): Promise<Loaded> {
    const stop = () => this.#starting.fail(signal.reason);
    signal.throwIfAborted();
    signal.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const message = await this.#starting.take();
        if (message.type === "ready") this.#process.send({ type: "load", load: this.#order });
        else if (message.type === "refused") throw unpackError(message.error);
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
    const { id, inbox, end } = this.#begin((each) => ({ type: "generate", id: each, job }), signal);
    let taken = 0;
    try {
      for (;;) {
        const news = await inbox.take();
        if ("error" in news) throw unpackError(news.error);
        if (!("event" in news)) return;
        yield news.event;
        if (++taken < TAKEN_AT_ONCE) continue;
        this.#process.send({ type: "taken", id, count: taken });
        taken = 0;
      }
    } finally {
      end();
    }
  }

  async embed(
    texts: readonly string[],
    { priority }: { readonly priority: Priority },
    signal: AbortSignal,
  ): Promise<Embedded> {
    const news = await this.#ask((id) => ({ type: "embed", id, texts, priority }), signal);
    if ("embedded" in news) return news.embedded;
    throw new Error("the answer to another question");
  }

  async encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]> {
    const news = await this.#ask((id) => ({ type: "encode", id, prompt }), signal);
    if ("tokens" in news) return news.tokens;
    throw new Error("the answer to another question");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#end(
      new AssistantError("shutting_down", `model "${this.id}" is being unloaded; try again`, {
        retryAfterSeconds: 1,
      }),
    );
    await this.#process[Symbol.asyncDispose]();
  }

  async #follow(): Promise<void> {
    this.#processEnd = await this.#process.ended;
    const { reason } = this.#processEnd;
    this.#cores[Symbol.dispose]();
    this.#end(
      new AssistantError(
        "engine_failed",
        `the process of model "${this.id}" ended (${reason}) and the request with it; try again`,
        { retryAfterSeconds: 1 },
      ),
    );
    if (!this.#disposed) this.#onEnded({ reason });
  }

  async #ask(message: (id: number) => JobMessage, signal: AbortSignal): Promise<News> {
    const { inbox, end } = this.#begin(message, signal);
    try {
      const news = await inbox.take();
      if ("error" in news) throw unpackError(news.error);
      return news;
    } finally {
      end();
    }
  }

  /** `end` has to be called, whatever became of the job. */
  #begin(message: (id: number) => JobMessage, signal: AbortSignal) {
    signal.throwIfAborted();
    if (this.#over) throw this.#over;
    const id = this.#nextId++;
    const inbox = new Inbox<News>();
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

  /** Does nothing for a job that is over. */
  #cancel(id: number): void {
    if (this.#jobs.delete(id)) this.#process.send({ type: "cancel", id });
  }

  #hear(message: FromChild): void {
    switch (message.type) {
      case "news":
        this.#load = message.load;
        for (const news of message.news) this.#tell(news);
        break;
      case "hold":
        this.#cores.hold(message.id, message.priority);
        break;
      case "unhold":
        this.#cores.unhold(message.id);
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
        this.#starting.push(message);
    }
  }

  #tell(news: News): void {
    const inbox = this.#jobs.get(news.id);
    if (!inbox) return;
    if (!("event" in news)) this.#jobs.delete(news.id);
    inbox.push(news);
  }

  #end(over: AssistantError): void {
    if (this.#over) return;
    this.#over = over;
    for (const inbox of this.#jobs.values()) inbox.fail(over);
    this.#jobs.clear();
    this.#starting.fail(over);
  }

  /** Large files take minutes from a slow disk; a line for each quarter says that something goes on. */
  #logProgress(done: number): void {
    const quarters = Math.floor(done * 4);
    if (quarters <= this.#loggedQuarters) return;
    this.#loggedQuarters = quarters;
    this.#logger.debug({ model: this.id, percent: quarters * 25 }, "a model is being read");
  }
}
