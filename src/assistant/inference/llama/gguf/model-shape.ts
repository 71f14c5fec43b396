import { GgufError } from "./gguf-error.ts";
import type { GgufHeader, MetadataValue } from "./gguf-header.ts";

/** The dimensions of a model that determine its memory need. */
export interface ModelShape {
  readonly architecture: string;
  readonly layers: number;
  readonly embeddingLength: number;
  readonly feedForwardLength: number;
  readonly vocabulary: number;
  readonly trainedContextTokens: number;
  readonly heads: number;
  /** The number of keys and values per token, by layer; 0 for a layer without attention. */
  readonly kvValuesPerToken: readonly number[];
  /** The attention window in tokens, by layer; undefined for full attention. */
  readonly windowTokens: readonly (number | undefined)[];
  /** The number of values that one KV-cache sequence has in all recurrent layers together. */
  readonly recurrentState: number;
}

/**
 * The maximum number of layers: ten times as many as in the largest known model. A larger number means a damaged file.
 */
const LAYERS_MAX = 10_000;
const LENGTH_MAX = 1 << 24;

/**
 * If the file of one of these architectures does not state which layers have an attention window, every n-th layer has
 * full attention and all other layers have a window. The values are n, as in llama.cpp's code.
 */
const fullLayerEvery: Readonly<Record<string, number>> = {
  cohere2: 4,
  gemma2: 2,
  gemma3: 6,
  gemma3n: 5,
  "gpt-oss": 2,
};

export function readModelShape(header: GgufHeader): ModelShape {
  const architecture = header.metadata.get("general.architecture");
  if (typeof architecture !== "string")
    throw new GgufError("the file does not name an architecture");
  const fields = new ArchitectureMetadata(header.metadata, architecture);
  const layers = fields.getSize("block_count", { max: LAYERS_MAX });
  const embeddingLength = fields.getSize("embedding_length", { max: LENGTH_MAX });
  const heads = fields.getPerLayer("attention.head_count", layers) ?? [];
  const keyValueHeads = fields.getPerLayer("attention.head_count_kv", layers) ?? heads;
  const headsMax = Math.max(0, ...heads);
  // llama.cpp divides by the number of attention heads, so only a state-space model may have none.
  if (heads.length > 0 && headsMax === 0 && !fields.has("ssm.inner_size")) {
    throw new GgufError("the model has no attention heads");
  }
  const headLength = headsMax > 0 ? embeddingLength / headsMax : 0;
  const keyLength = fields.getOptionalSize("attention.key_length") ?? headLength;
  const valueLength = fields.getOptionalSize("attention.value_length") ?? headLength;
  return {
    architecture,
    layers,
    embeddingLength,
    heads: headsMax,
    feedForwardLength: Math.max(0, ...(fields.getPerLayer("feed_forward_length", layers) ?? [0])),
    vocabulary: readVocabularySize(header, fields),
    trainedContextTokens: fields.getSize("context_length", { max: LENGTH_MAX * 64 }),
    kvValuesPerToken: Array.from(
      { length: layers },
      (_, layer) => (keyValueHeads[layer] ?? 0) * (keyLength + valueLength),
    ),
    windowTokens: readWindows(fields, architecture, layers),
    recurrentState: layers * computeRecurrentStatePerLayer(fields),
  };
}

function readWindows(
  fields: ArchitectureMetadata,
  architecture: string,
  layers: number,
): readonly (number | undefined)[] {
  const window = fields.getOptionalSize("attention.sliding_window");
  if (window === undefined || window === 0) return [];
  const pattern = fields.getPerLayer("attention.sliding_window_pattern", layers);
  if (pattern && pattern.length === layers && new Set(pattern).size === 2) {
    return pattern.map((windowed) => (windowed ? window : undefined));
  }
  const every = fullLayerEvery[architecture];
  if (every === undefined) return [];
  return Array.from({ length: layers }, (_, layer) =>
    (layer + 1) % every === 0 ? undefined : window,
  );
}

/** Computes llama.cpp's size of a Mamba layer's state: the convolution's input and the recurrent state. */
function computeRecurrentStatePerLayer(fields: ArchitectureMetadata): number {
  const inner = fields.getOptionalSize("ssm.inner_size") ?? 0;
  const state = fields.getOptionalSize("ssm.state_size") ?? 0;
  const groups = fields.getOptionalSize("ssm.group_count") ?? 0;
  const kernel = fields.getOptionalSize("ssm.conv_kernel") ?? 1;
  return (kernel - 1) * (inner + 2 * groups * state) + inner * state;
}

function readVocabularySize(header: GgufHeader, fields: ArchitectureMetadata): number {
  const words = header.metadata.get("tokenizer.ggml.tokens");
  if (typeof words === "object" && "listLength" in words) return words.listLength;
  if (Array.isArray(words)) return words.length;
  return fields.getOptionalSize("vocab_size") ?? 0;
}

class ArchitectureMetadata {
  readonly #metadata: ReadonlyMap<string, MetadataValue>;
  readonly #architecture: string;

  constructor(metadata: ReadonlyMap<string, MetadataValue>, architecture: string) {
    this.#metadata = metadata;
    this.#architecture = architecture;
  }

  has(name: string): boolean {
    return this.#metadata.has(`${this.#architecture}.${name}`);
  }

  getSize(name: string, { max }: { max: number }): number {
    const value = this.getOptionalSize(name);
    if (value === undefined)
      throw new GgufError(`the file has no key ${this.#architecture}.${name}`);
    if (!Number.isInteger(value) || value < 1 || value > max) {
      throw new GgufError(`the key ${this.#architecture}.${name} has the invalid value ${value}`);
    }
    return value;
  }

  getOptionalSize(name: string): number | undefined {
    const value = this.#metadata.get(`${this.#architecture}.${name}`);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !(value >= 0)) {
      throw new GgufError(`the key ${this.#architecture}.${name} is not a valid size`);
    }
    return value;
  }

  /** Reads a value that is either one number for all layers, or a list with a number for each layer. */
  getPerLayer(name: string, layers: number): readonly number[] | undefined {
    const value = this.#metadata.get(`${this.#architecture}.${name}`);
    if (value === undefined) return undefined;
    if (Array.isArray(value)) return value;
    return Array.from({ length: layers }, () => this.getOptionalSize(name) ?? 0);
  }
}
