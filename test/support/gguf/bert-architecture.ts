import type { VocabularyToken } from "./spm-vocabulary.ts";
import { WeightMaker } from "./weights.ts";
import { createWordPieceVocabulary, wordPieceIds } from "./word-pieces.ts";
import type { GgufFile, TensorSource, TensorType, TypedMetadataValue } from "./write-gguf.ts";

export interface BertShape {
  readonly name: string;
  readonly seed: number;
  readonly type: TensorType;
  readonly embeddingLength: number;
  readonly layers: number;
  readonly heads: number;
  readonly feedForwardLength: number;
  readonly contextTokens: number;
}

/** The number that llama.cpp uses for mean pooling. */
const POOLING_MEAN = 1;

/** The weight of each layer's output. It is small, so that texts with words in common have similar vectors. */
const LAYER_GAIN = 0.3;

/** Returns an embedding model with BERT's layers, random weights and mean pooling. */
export function buildBertModel(shape: BertShape): GgufFile {
  const { embeddingLength, layers, feedForwardLength, type } = shape;
  const tokens = createWordPieceVocabulary();
  const layerValues = 4 * embeddingLength ** 2 + 2 * embeddingLength * feedForwardLength;
  const make = new WeightMaker(
    shape.seed,
    (tokens.length + shape.contextTokens) * embeddingLength + layers * layerValues,
  );
  const tensors: TensorSource[] = [
    make.matrix("token_embd.weight", type, tokens.length, embeddingLength, { deviation: 1 }),
    make.matrix("position_embd.weight", "F32", shape.contextTokens, embeddingLength, {
      deviation: 0.1,
    }),
    make.matrix("token_types.weight", "F32", 2, embeddingLength, { deviation: 0.1 }),
  ];
  const norm = (name: string): void => {
    tensors.push(
      make.vector(`${name}.weight`, embeddingLength, { deviation: 0, mean: 1 }),
      make.vector(`${name}.bias`, embeddingLength, { deviation: 0 }),
    );
  };
  const linear = (name: string, rows: number, columns: number, gain: number): void => {
    tensors.push(
      make.matrix(`${name}.weight`, type, rows, columns, { deviation: gain / Math.sqrt(columns) }),
      make.vector(`${name}.bias`, rows, { deviation: 0 }),
    );
  };
  norm("token_embd_norm");
  for (let layer = 0; layer < layers; layer++) {
    const name = `blk.${layer}`;
    for (const part of ["attn_q", "attn_k", "attn_v"]) {
      linear(`${name}.${part}`, embeddingLength, embeddingLength, 1);
    }
    linear(`${name}.attn_output`, embeddingLength, embeddingLength, LAYER_GAIN);
    norm(`${name}.attn_output_norm`);
    linear(`${name}.ffn_up`, feedForwardLength, embeddingLength, 1);
    linear(`${name}.ffn_down`, embeddingLength, feedForwardLength, LAYER_GAIN);
    norm(`${name}.layer_output_norm`);
  }

  return { metadata: createBertMetadata(shape, tokens, wordPieceIds), tensors };
}

/** Returns the metadata of a BERT model with mean pooling and a WordPiece vocabulary. */
export function createBertMetadata(
  shape: Omit<BertShape, "seed" | "type">,
  tokens: readonly VocabularyToken[],
  ids: Readonly<Record<keyof typeof wordPieceIds, number>>,
): ReadonlyMap<string, TypedMetadataValue> {
  const { contextTokens, embeddingLength, layers, feedForwardLength } = shape;
  return new Map<string, TypedMetadataValue>([
    ["general.architecture", { type: "string", value: "bert" }],
    ["general.name", { type: "string", value: shape.name }],
    ["bert.context_length", { type: "uint32", value: contextTokens }],
    ["bert.embedding_length", { type: "uint32", value: embeddingLength }],
    ["bert.block_count", { type: "uint32", value: layers }],
    ["bert.feed_forward_length", { type: "uint32", value: feedForwardLength }],
    ["bert.attention.head_count", { type: "uint32", value: shape.heads }],
    ["bert.attention.layer_norm_epsilon", { type: "float32", value: 1e-12 }],
    ["bert.attention.causal", { type: "bool", value: false }],
    ["bert.pooling_type", { type: "uint32", value: POOLING_MEAN }],
    ["tokenizer.ggml.model", { type: "string", value: "bert" }],
    ["tokenizer.ggml.pre", { type: "string", value: "default" }],
    ["tokenizer.ggml.token_type_count", { type: "uint32", value: 2 }],
    ["tokenizer.ggml.tokens", { type: "strings", value: tokens.map(({ text }) => text) }],
    ["tokenizer.ggml.scores", { type: "float32s", value: tokens.map(({ score }) => score) }],
    ["tokenizer.ggml.token_type", { type: "int32s", value: tokens.map(({ kind }) => kind) }],
    ["tokenizer.ggml.padding_token_id", { type: "uint32", value: ids.padding }],
    ["tokenizer.ggml.unknown_token_id", { type: "uint32", value: ids.unknown }],
    ["tokenizer.ggml.cls_token_id", { type: "uint32", value: ids.begin }],
    ["tokenizer.ggml.bos_token_id", { type: "uint32", value: ids.begin }],
    ["tokenizer.ggml.seperator_token_id", { type: "uint32", value: ids.separator }],
    ["tokenizer.ggml.mask_token_id", { type: "uint32", value: ids.mask }],
  ]);
}
