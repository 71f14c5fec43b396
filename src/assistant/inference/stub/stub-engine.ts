import type { Clock } from "../../../base/clock.ts";
import { InProcessModel } from "../in-process-model.ts";
import type {
  InferenceEngine,
  LoadedModel,
  LoadRequest,
  ModelFacts,
  ModelFile,
} from "../inference-engine.ts";
import { StubRunner } from "./stub-runner.ts";

const CONTEXT_TOKENS = 8_192;
const SEQUENCES = 8;
const EMBEDDING_LENGTH = 256;
/** The memory of one token: each KV-cache sequence keeps its tokens as a list of numbers. */
const BYTES_PER_TOKEN = 8;

/** An engine for trials without a model. Its name, facts and answers say "stub"; it reads no file. */
export class StubEngine implements InferenceEngine {
  readonly name = "stub";
  readonly #clock: Clock;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  async inspect(_file: ModelFile, signal: AbortSignal): Promise<ModelFacts> {
    signal.throwIfAborted();
    return facts;
  }

  async load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel> {
    signal.throwIfAborted();
    const contextTokens = request.contextTokens ?? CONTEXT_TOKENS;
    const sequences = request.sequences ?? SEQUENCES;
    return new InProcessModel({
      id: request.id,
      facts,
      memoryBytes: facts.memoryBytes({ contextTokens, sequences }),
      threads: 1,
      runner: new StubRunner({ sequences, contextTokens, embeddingLength: EMBEDDING_LENGTH }),
      cores: request.cores,
      clock: this.#clock,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

const facts: ModelFacts = {
  architecture: "stub",
  name: "Stub",
  parameters: undefined,
  quantization: undefined,
  fileBytes: 0,
  trainedContextTokens: CONTEXT_TOKENS,
  embeddingLength: EMBEDDING_LENGTH,
  kind: "chat",
  // The stub has no chat template, because it renders messages itself.
  chatTemplate: undefined,
  memoryBytes: ({ contextTokens, sequences }) => contextTokens * sequences * BYTES_PER_TOKEN,
};
