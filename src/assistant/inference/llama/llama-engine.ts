import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type {
  InferenceEngine,
  LoadedModel,
  LoadRequest,
  ModelFacts,
  ModelFile,
} from "../inference-engine.ts";
import { inspectModel, type ModelInspection } from "./gguf/inspect-model.ts";
import { chooseSize } from "./model-size.ts";
import { ChildProcessModel } from "./process/child-model.ts";
import { EngineProcess } from "./process/engine-process.ts";
import type { LoadParams } from "./process/ipc.ts";
import { CalibrationCache, type Measurements } from "./threads/calibration-cache.ts";
import { countCores } from "./threads/count-cores.ts";

export interface LlamaEngineOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** At most so many threads; undefined: what the machine has and grants. */
  readonly threads: number | undefined;
  /** Where measurements are kept from one load to the next; made where it is missing. */
  readonly cacheDir: string;
  /** "auto" uses what llama.cpp finds; memory is counted as if everything were on the processor. */
  readonly gpu?: "auto" | false;
}

/** llama.cpp, a process for each model: one that crashes takes nothing along, and one that ends leaves nothing. */
export class LlamaEngine implements InferenceEngine {
  readonly name = "llama.cpp";
  readonly #options: LlamaEngineOptions;
  readonly #cores: number;
  readonly #cache: CalibrationCache;
  readonly #models = new Set<ChildProcessModel>();
  readonly #closing = new AbortController();

  constructor(options: LlamaEngineOptions) {
    const counted = countCores();
    this.#options = options;
    // More threads than cores compute a hundred times slower: whoever asks for them did not mean that.
    this.#cores = Math.max(1, Math.min(options.threads ?? counted, counted));
    this.#cache = new CalibrationCache({
      folder: options.cacheDir,
      cores: this.#cores,
      clock: options.clock,
    });
  }

  async inspect(file: ModelFile, signal: AbortSignal): Promise<ModelFacts> {
    return (await inspectModel(file, signal)).facts;
  }

  async load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel> {
    const ending = AbortSignal.any([signal, this.#closing.signal]);
    ending.throwIfAborted();
    const { logger, clock } = this.#options;
    const inspected = await inspectModel(request, ending);
    const params = await this.#createLoadParams(request, inspected);
    const process = new EngineProcess({
      // Decodes that stay on one thread keep its caches warm; embedding does several side by side.
      workers: inspected.facts.kind === "embedding" ? params.embeddingsAtOnce : 1,
      clock,
      logger: logger.child({ model: request.id }),
    });
    const model = new ChildProcessModel({
      process,
      params: params,
      facts: inspected.facts,
      cores: request.cores,
      logger,
    });
    this.#models.add(model);
    // However it ends: by itself, or unloaded.
    void process.ended.then(() => this.#models.delete(model));
    try {
      const { measured, steady } = await model.start(ending);
      if (measured && steady) await this.#saveMeasurements(inspected, measured);
      else if (measured) this.#cache.keepTemporarily(inspected.digest, measured);
      ending.throwIfAborted();
    } catch (error) {
      const explained = this.#toLoadError(model, error, ending);
      await model[Symbol.asyncDispose]();
      throw explained;
    }
    return model;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is stopping"));
    await Promise.all([...this.#models].map((model) => model[Symbol.asyncDispose]()));
    this.#models.clear();
  }

  async #createLoadParams(
    request: LoadRequest,
    { facts, digest }: ModelInspection,
  ): Promise<LoadParams> {
    const embeddingsAtOnce = facts.kind === "embedding" ? this.#cores : 1;
    const size = chooseSize(facts, request, embeddingsAtOnce);
    return {
      id: request.id,
      path: request.path,
      ...size,
      embeddingsAtOnce,
      threadsMax: this.#cores,
      gpu: this.#options.gpu ?? false,
      measured: await this.#cache.read(digest),
    };
  }

  async #saveMeasurements({ digest }: ModelInspection, measured: Measurements) {
    try {
      await this.#cache.write(digest, measured);
    } catch (error) {
      this.#options.logger.warn({ err: error }, "what was measured of a model cannot be kept");
    }
  }

  /** A process that ends while it reads a file was ended by the file: to try again is of no use. */
  #toLoadError(model: ChildProcessModel, error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    const { id, processEnd } = model;
    if (!processEnd) return error;
    if (processEnd.signal === "SIGKILL" && !processEnd.isKilledByParent) {
      return new AssistantError(
        "insufficient_memory",
        `model "${id}" was killed while it was loaded, most likely by the system for want of memory; use a smaller context, fewer sequences, or a smaller quantization`,
        { cause: error },
      );
    }
    return new AssistantError(
      "model_unusable",
      `the file of model "${id}" cannot be loaded: llama.cpp failed over it (${processEnd.reason}); get it again, or another one`,
      { cause: error },
    );
  }
}
