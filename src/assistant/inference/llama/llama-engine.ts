import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../errors.ts";
import type { Engine, LoadedModel, LoadRequest, ModelFacts, ModelFile } from "../engine.ts";
import { type InspectedModel, inspectModel } from "./gguf/inspect.ts";
import { chooseSize } from "./model-size.ts";
import { EngineProcess } from "./process/engine-process.ts";
import { RemoteModel } from "./process/remote-model.ts";
import type { LoadOrder } from "./process/wire.ts";
import { CalibrationCache, type Measured } from "./threads/calibration-cache.ts";
import { countCores } from "./threads/cores.ts";

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
export class LlamaEngine implements Engine {
  readonly name = "llama.cpp";
  readonly #options: LlamaEngineOptions;
  readonly #cores: number;
  readonly #cache: CalibrationCache;
  readonly #models = new Set<RemoteModel>();
  readonly #ending = new AbortController();

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
    const ending = AbortSignal.any([signal, this.#ending.signal]);
    ending.throwIfAborted();
    const { logger, clock } = this.#options;
    const inspected = await inspectModel(request, ending);
    const order = await this.#order(request, inspected);
    const process = new EngineProcess({
      // Decodes that stay on one thread keep its caches warm; embedding does several side by side.
      workers: inspected.facts.kind === "embedding" ? order.embeddingsAtOnce : 1,
      clock,
      logger: logger.child({ model: request.id }),
    });
    const model = new RemoteModel({
      process,
      order,
      facts: inspected.facts,
      cores: request.cores,
      logger,
    });
    this.#models.add(model);
    // However it ends: by itself, or unloaded.
    void process.ended.then(() => this.#models.delete(model));
    try {
      const { measured, steady } = await model.start(ending);
      if (measured && steady) await this.#keep(inspected, measured);
      else if (measured) this.#cache.note(inspected.digest, measured);
      ending.throwIfAborted();
    } catch (error) {
      const explained = this.#explain(model, error, ending);
      await model[Symbol.asyncDispose]();
      throw explained;
    }
    return model;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new AssistantError("shutting_down", "the assistant is stopping"));
    await Promise.all([...this.#models].map((model) => model[Symbol.asyncDispose]()));
    this.#models.clear();
  }

  async #order(request: LoadRequest, { facts, digest }: InspectedModel): Promise<LoadOrder> {
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

  async #keep({ digest }: InspectedModel, measured: Measured) {
    try {
      await this.#cache.write(digest, measured);
    } catch (error) {
      this.#options.logger.warn({ err: error }, "what was measured of a model cannot be kept");
    }
  }

  /** A process that ends while it reads a file was ended by the file: to try again is of no use. */
  #explain(model: RemoteModel, error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    const { id, processEnd } = model;
    if (!processEnd) return error;
    if (processEnd.signal === "SIGKILL" && !processEnd.isOwn) {
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
