import { Damage } from "./damage.ts";
import type { Header, MetadataValue } from "./header.ts";

/** The dimensions of a model, as far as its need for memory follows from them. */
export interface ModelShape {
  readonly architecture: string;
  readonly layers: number;
  readonly embeddingLength: number;
  readonly feedForwardLength: number;
  readonly vocabulary: number;
  readonly trainedContextTokens: number;
  readonly heads: number;
  /** Values that each layer keeps of one token, keys and values together; 0 for a layer without attention. */
  readonly keptPerToken: readonly number[];
  /** What a layer sees at most, in tokens, by layer; undefined: everything. */
  readonly windowTokens: readonly (number | undefined)[];
  /** Values that each sequence has in all recurrent layers together. */
  readonly recurrentState: number;
}

/** More than the largest model known has, by a factor of ten: what is past it is damage. */
const LAYERS_MAX = 10_000;
const LENGTH_MAX = 1 << 24;

/**
 * One layer in so many sees everything, the others a window, where the file does not say it itself
 * (llama.cpp has the same numbers in the code of these architectures).
 */
const fullLayerEvery: Readonly<Record<string, number>> = {
  cohere2: 4,
  gemma2: 2,
  gemma3: 6,
  gemma3n: 5,
  "gpt-oss": 2,
};

export function readShape(header: Header): ModelShape {
  const architecture = header.metadata.get("general.architecture");
  if (typeof architecture !== "string") throw new Damage("it does not say its architecture");
  const fields = new Fields(header.metadata, architecture);
  const layers = fields.size("block_count", { max: LAYERS_MAX });
  const embeddingLength = fields.size("embedding_length", { max: LENGTH_MAX });
  const heads = fields.perLayer("attention.head_count", layers) ?? [];
  const keyValueHeads = fields.perLayer("attention.head_count_kv", layers) ?? heads;
  const headsMost = Math.max(0, ...heads);
  // llama.cpp divides by it.
  if (heads.length > 0 && headsMost === 0 && !fields.has("ssm.inner_size")) {
    throw new Damage("it has no attention heads");
  }
  const headLength = headsMost > 0 ? embeddingLength / headsMost : 0;
  const keyLength = fields.optional("attention.key_length") ?? headLength;
  const valueLength = fields.optional("attention.value_length") ?? headLength;
  return {
    architecture,
    layers,
    embeddingLength,
    heads: headsMost,
    feedForwardLength: Math.max(0, ...(fields.perLayer("feed_forward_length", layers) ?? [0])),
    vocabulary: vocabularySize(header, fields),
    trainedContextTokens: fields.size("context_length", { max: LENGTH_MAX * 64 }),
    keptPerToken: Array.from(
      { length: layers },
      (_, layer) => (keyValueHeads[layer] ?? 0) * (keyLength + valueLength),
    ),
    windowTokens: readWindows(fields, architecture, layers),
    recurrentState: layers * recurrentStatePerLayer(fields),
  };
}

function readWindows(
  fields: Fields,
  architecture: string,
  layers: number,
): readonly (number | undefined)[] {
  const window = fields.optional("attention.sliding_window");
  if (window === undefined || window === 0) return [];
  const pattern = fields.perLayer("attention.sliding_window_pattern", layers);
  if (pattern && pattern.length === layers && new Set(pattern).size === 2) {
    return pattern.map((windowed) => (windowed ? window : undefined));
  }
  const every = fullLayerEvery[architecture];
  if (every === undefined) return [];
  return Array.from({ length: layers }, (_, layer) =>
    (layer + 1) % every === 0 ? undefined : window,
  );
}

/** As llama.cpp sizes the state of Mamba's layers: what is being convolved, and what is remembered. */
function recurrentStatePerLayer(fields: Fields): number {
  const inner = fields.optional("ssm.inner_size") ?? 0;
  const state = fields.optional("ssm.state_size") ?? 0;
  const groups = fields.optional("ssm.group_count") ?? 0;
  const kernel = fields.optional("ssm.conv_kernel") ?? 1;
  return (kernel - 1) * (inner + 2 * groups * state) + inner * state;
}

function vocabularySize(header: Header, fields: Fields): number {
  const words = header.metadata.get("tokenizer.ggml.tokens");
  if (typeof words === "object" && "listLength" in words) return words.listLength;
  if (Array.isArray(words)) return words.length;
  return fields.optional("vocab_size") ?? 0;
}

class Fields {
  readonly #metadata: ReadonlyMap<string, MetadataValue>;
  readonly #architecture: string;

  constructor(metadata: ReadonlyMap<string, MetadataValue>, architecture: string) {
    this.#metadata = metadata;
    this.#architecture = architecture;
  }

  has(name: string): boolean {
    return this.#metadata.has(`${this.#architecture}.${name}`);
  }

  size(name: string, { max }: { max: number }): number {
    const value = this.optional(name);
    if (value === undefined) throw new Damage(`it has no ${this.#architecture}.${name}`);
    if (!Number.isInteger(value) || value < 1 || value > max) {
      throw new Damage(`its ${this.#architecture}.${name} is ${value}`);
    }
    return value;
  }

  optional(name: string): number | undefined {
    const value = this.#metadata.get(`${this.#architecture}.${name}`);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !(value >= 0)) {
      throw new Damage(`its ${this.#architecture}.${name} is no size`);
    }
    return value;
  }

  /** One number for all layers, or a list of one for each. */
  perLayer(name: string, layers: number): readonly number[] | undefined {
    const value = this.#metadata.get(`${this.#architecture}.${name}`);
    if (value === undefined) return undefined;
    if (Array.isArray(value)) return value;
    return Array.from({ length: layers }, () => this.optional(name) ?? 0);
  }
}
