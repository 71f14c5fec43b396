import type {
  InferenceEngine,
  LoadedModel,
  LoadRequest,
  ModelEnd,
  ModelFacts,
  ModelFile,
} from "../../src/assistant/inference/inference-engine.ts";

/** Wraps an engine so that a test can delay, fail and count loads, and crash models. */
export class GatedEngine implements InferenceEngine {
  readonly name: string;
  /** All loads that have started, in order. */
  readonly loads: LoadRequest[] = [];
  /** The memory that models use, by id. Other models use 1 byte. */
  readonly memoryBytes = new Map<string, number>();
  readonly kinds = new Map<string, ModelFacts["kind"]>();
  readonly failures = new Map<string, Error>();
  readonly #inner: InferenceEngine;
  readonly #crashes = new Map<string, (end: ModelEnd) => void>();
  #gate: Promise<void> = Promise.resolve();
  #open = () => {};

  constructor(inner: InferenceEngine) {
    this.#inner = inner;
    this.name = inner.name;
  }

  /** Delays all loads until the returned function is called. */
  holdLoads(): () => void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
    return this.#open;
  }

  crash(id: string): void {
    this.#crashes.get(id)?.({ reason: "killed by SIGSEGV" });
  }

  async inspect(file: ModelFile, signal: AbortSignal): Promise<ModelFacts> {
    const facts = await this.#inner.inspect(file, signal);
    return {
      ...facts,
      kind: this.kinds.get(file.id) ?? facts.kind,
      memoryBytes: () => this.#getMemoryBytes(file.id),
    };
  }

  async load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel> {
    this.loads.push(request);
    await Promise.race([
      this.#gate,
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      }),
    ]);
    signal.throwIfAborted();
    const failure = this.failures.get(request.id);
    if (failure) throw failure;
    const model = await this.#inner.load(request, signal);
    const memoryBytes = this.#getMemoryBytes(request.id);
    const crashed = new Promise<ModelEnd>((resolve) => {
      this.#crashes.set(request.id, resolve);
    });
    return new Proxy(model, {
      get: (target, name) => {
        if (name === "memoryBytes") return memoryBytes;
        if (name === "ended") return crashed;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#inner[Symbol.asyncDispose]();
  }

  #getMemoryBytes(id: string): number {
    return this.memoryBytes.get(id) ?? 1;
  }
}
