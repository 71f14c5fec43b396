import { createSpmVocabulary } from "./spm-vocabulary.ts";
import { WeightMaker, type Weights } from "./weights.ts";
import type { GgufFile, TensorSource, TensorType, TypedMetadataValue } from "./write-gguf.ts";

export interface LlamaShape {
  readonly name: string;
  readonly seed: number;
  readonly type: TensorType;
  readonly vocabularySize: number;
  readonly embeddingLength: number;
  readonly layers: number;
  readonly heads: number;
  /** The number of heads for keys and values. Several query heads share each of them. */
  readonly keyValueHeads: number;
  readonly feedForwardLength: number;
  readonly contextTokens: number;
  /** The chat template; undefined if the file contains none. */
  readonly template: string | undefined;
  /** The average length of the model's answers in tokens, at temperature 1; undefined if answers never end. */
  readonly endsAfter: number | undefined;
  /** If true, every output weight is NaN, as in some damaged files. */
  readonly notANumber: boolean;
}

/** The values of `general.file_type` in the metadata. llama.cpp reports them and does not use them. */
const FILE_TYPES: Record<TensorType, number> = { F32: 0, F16: 1, Q8_0: 7, Q4_0: 2 };

/** The standard deviation of each token's logit over all positions. The mean of the logit is the token's bias. */
const LOGIT_DEVIATION = 1.3;

/**
 * Returns a model that generates random but readable text. The first value of the hidden state is the same at every
 * position: the embedding sets it, and no layer adds to it. The first column of the output weights therefore acts as
 * a bias for each token, which makes byte tokens and control tokens rare.
 */
export function buildLlamaModel(shape: LlamaShape): GgufFile {
  const { embeddingLength, layers, heads, keyValueHeads, feedForwardLength, type } = shape;
  const vocabulary = createSpmVocabulary(shape.vocabularySize, shape.endsAfter);
  const keyValueLength = (embeddingLength / heads) * keyValueHeads;
  const layerValues =
    2 * embeddingLength * (embeddingLength + keyValueLength) +
    3 * embeddingLength * feedForwardLength +
    2 * embeddingLength;
  const values =
    2 * shape.vocabularySize * embeddingLength + layers * layerValues + embeddingLength;
  const make = new WeightMaker(shape.seed, values);

  // The first value of the hidden state is a large constant: its square is half of the state's squared norm. The first
  // column of the output matrix holds the biases of the tokens, divided by this constant. Such small values cost the
  // other weights of their quantisation block little precision.
  const constant = Math.sqrt(embeddingLength / 2);
  const scatter = Math.SQRT1_2;
  const biasOf = (row: number): number => (vocabulary.tokens[row]?.bias ?? 0) / constant;
  const output: Weights = shape.notANumber
    ? { deviation: 0, mean: Number.NaN }
    : {
        deviation: LOGIT_DEVIATION / (scatter * Math.sqrt(embeddingLength)),
        firstOfRow: biasOf,
      };
  // As in real files, the weights of the embeddings and of the output have more bits than the others.
  const edgeType = type === "Q4_0" ? "Q8_0" : type;
  const outputType = shape.notANumber ? "F32" : edgeType;

  const tensors: TensorSource[] = [
    make.matrix("token_embd.weight", edgeType, shape.vocabularySize, embeddingLength, {
      deviation: scatter,
      firstOfRow: () => constant,
    }),
  ];
  for (let layer = 0; layer < layers; layer++) {
    const matrix = (part: string, rows: number, columns: number, weights: Weights): TensorSource =>
      make.matrix(`blk.${layer}.${part}.weight`, type, rows, columns, weights);
    tensors.push(
      make.vector(`blk.${layer}.attn_norm.weight`, embeddingLength, { deviation: 0, mean: 1 }),
      matrix("attn_q", embeddingLength, embeddingLength, perInput(embeddingLength, 2)),
      matrix("attn_k", keyValueLength, embeddingLength, perInput(embeddingLength, 2)),
      matrix("attn_v", keyValueLength, embeddingLength, perInput(embeddingLength, 1)),
      matrix("attn_output", embeddingLength, embeddingLength, {
        ...perInput(embeddingLength, 1),
        firstRowZero: true,
      }),
      make.vector(`blk.${layer}.ffn_norm.weight`, embeddingLength, { deviation: 0, mean: 1 }),
      matrix("ffn_gate", feedForwardLength, embeddingLength, perInput(embeddingLength, 1)),
      matrix("ffn_up", feedForwardLength, embeddingLength, perInput(embeddingLength, 1)),
      matrix("ffn_down", embeddingLength, feedForwardLength, {
        ...perInput(feedForwardLength, 1),
        firstRowZero: true,
      }),
    );
  }
  tensors.push(
    make.vector("output_norm.weight", embeddingLength, { deviation: 0, mean: 1 }),
    make.matrix("output.weight", outputType, shape.vocabularySize, embeddingLength, output),
  );

  const metadata = new Map<string, TypedMetadataValue>([
    ["general.architecture", { type: "string", value: "llama" }],
    ["general.name", { type: "string", value: shape.name }],
    ["general.file_type", { type: "uint32", value: FILE_TYPES[type] }],
    ["general.quantization_version", { type: "uint32", value: 2 }],
    ["llama.context_length", { type: "uint32", value: shape.contextTokens }],
    ["llama.embedding_length", { type: "uint32", value: embeddingLength }],
    ["llama.block_count", { type: "uint32", value: layers }],
    ["llama.feed_forward_length", { type: "uint32", value: feedForwardLength }],
    ["llama.attention.head_count", { type: "uint32", value: heads }],
    ["llama.attention.head_count_kv", { type: "uint32", value: keyValueHeads }],
    ["llama.attention.layer_norm_rms_epsilon", { type: "float32", value: 1e-5 }],
    ["llama.rope.dimension_count", { type: "uint32", value: embeddingLength / heads }],
    ["llama.rope.freq_base", { type: "float32", value: 10_000 }],
    ["llama.vocab_size", { type: "uint32", value: shape.vocabularySize }],
    ["tokenizer.ggml.model", { type: "string", value: "llama" }],
    ["tokenizer.ggml.pre", { type: "string", value: "default" }],
    [
      "tokenizer.ggml.tokens",
      { type: "strings", value: vocabulary.tokens.map(({ text }) => text) },
    ],
    [
      "tokenizer.ggml.scores",
      { type: "float32s", value: vocabulary.tokens.map(({ score }) => score) },
    ],
    [
      "tokenizer.ggml.token_type",
      { type: "int32s", value: vocabulary.tokens.map(({ kind }) => kind) },
    ],
    ["tokenizer.ggml.unknown_token_id", { type: "uint32", value: 0 }],
    ["tokenizer.ggml.bos_token_id", { type: "uint32", value: 1 }],
    ["tokenizer.ggml.eos_token_id", { type: "uint32", value: 2 }],
    [
      "tokenizer.ggml.eot_token_id",
      { type: "uint32", value: vocabulary.ids.get("<|im_end|>") ?? 2 },
    ],
    ["tokenizer.ggml.add_bos_token", { type: "bool", value: true }],
    ["tokenizer.ggml.add_eos_token", { type: "bool", value: false }],
    ["tokenizer.ggml.add_space_prefix", { type: "bool", value: true }],
  ]);
  if (shape.template !== undefined) {
    metadata.set("tokenizer.chat_template", { type: "string", value: shape.template });
  }
  return { metadata, tensors };
}

/** Returns weights for `inputs` inputs: the standard deviation of the output is `gain` times that of the inputs. */
function perInput(inputs: number, gain: number): Weights {
  return { deviation: gain / Math.sqrt(inputs) };
}
