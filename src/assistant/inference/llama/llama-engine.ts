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
  /** The maximum number of threads; undefined means one for each core that this process may use. */
  readonly threads: number | undefined;
  /** The folder in which measurements are kept for the next load; created if it is missing. */
  readonly cacheDir: string;
  /** "auto" uses a GPU that llama.cpp finds; memory is estimated as if only the processor were used. */
  readonly gpu?: "auto" | false;
}

/** Runs llama.cpp in a process for each model, so that a crash affects no other model. */
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
    // With more threads than cores a computation is a hundred times slower, so the number of threads is limited to the
    // cores.
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
      // Decoding stays on one thread to keep its caches warm; embedding uses several threads concurrently.
      workers: inspected.facts.kind === "embedding" ? params.embeddingsAtOnce : 1,
      clock,
      logger: logger.child({ model: request.id }),
    });
    const model = new ChildProcessModel({
      process,
      params,
      facts: inspected.facts,
      cores: request.cores,
      logger,
    });
    this.#models.add(model);
    void process.ended.then(() => this.#models.delete(model));
    try {
      const { measured, steady } = await model.start(ending);
      if (measured && steady) await this.#saveMeasurements(inspected, measured);
      else if (measured) this.#cache.keepTemporarily(inspected.digest, measured);
      ending.throwIfAborted();
    } catch (error) {
      const loadError = this.#toLoadError(model, error, ending);
      await model[Symbol.asyncDispose]();
      throw loadError;
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
      chatTemplate: request.chatTemplate,
      ...size,
      embeddingsAtOnce,
      threadsMax: this.#cores,
      isDeterministic: request.isDeterministic ?? false,
      gpu: this.#options.gpu ?? false,
      measured: await this.#cache.read(digest),
    };
  }

  async #saveMeasurements({ digest }: ModelInspection, measured: Measurements) {
    try {
      await this.#cache.write(digest, measured);
    } catch (error) {
      this.#options.logger.warn({ err: error }, "the measurements of a model cannot be saved");
    }
  }

  /**
   * Converts the error of a load. If the process ended during the load, the model's file caused that, and another
   * attempt would fail too.
   */
  #toLoadError(model: ChildProcessModel, error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    const { id, processEnd } = model;
    if (!processEnd) return error;
    if (processEnd.signal === "SIGKILL" && !processEnd.isKilledByParent) {
      return new AssistantError(
        "insufficient_memory",
        `model "${id}" was killed during the load, most likely by the system because memory ran out; use a smaller context, fewer sequences, or a smaller quantization`,
        { cause: error },
      );
    }
    return new AssistantError(
      "model_unusable",
      `the file of model "${id}" cannot be loaded: llama.cpp crashed (${processEnd.reason}); download it again, or use another file`,
      { cause: error },
    );
  }
}
