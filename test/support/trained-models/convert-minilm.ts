import { open, readFile } from "node:fs/promises";
import { createBertMetadata } from "../gguf/bert-architecture.ts";
import { tokenKinds, type VocabularyToken } from "../gguf/spm-vocabulary.ts";
import { WORD_START } from "../gguf/word-pieces.ts";
import { rowBytes, type TensorSource, writeGguf } from "../gguf/write-gguf.ts";

const SHAPE = {
  name: "all-MiniLM-L6-v2",
  embeddingLength: 384,
  layers: 6,
  heads: 12,
  feedForwardLength: 1_536,
  contextTokens: 512,
};

/** llama.cpp's names of the tensors, by the names in the published file. Tensors without a name are not needed. */
const TENSOR_NAMES: Readonly<Record<string, string>> = {
  "embeddings.word_embeddings": "token_embd",
  "embeddings.position_embeddings": "position_embd",
  "embeddings.token_type_embeddings": "token_types",
  "embeddings.LayerNorm": "token_embd_norm",
  "attention.self.query": "attn_q",
  "attention.self.key": "attn_k",
  "attention.self.value": "attn_v",
  "attention.output.dense": "attn_output",
  "attention.output.LayerNorm": "attn_output_norm",
  "intermediate.dense": "ffn_up",
  "output.dense": "ffn_down",
  "output.LayerNorm": "layer_output_norm",
};

interface PublishedTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Writes all-MiniLM-L6-v2 as a GGUF file, without changing a weight. The same input gives the same bytes. */
export async function convertMiniLm(
  from: { readonly weights: string; readonly vocabulary: string },
  to: string,
): Promise<void> {
  const tokens = readVocabulary(await readFile(from.vocabulary, "utf8"));
  const id = (text: string) => tokens.findIndex((token) => token.text === text);
  const metadata = createBertMetadata(SHAPE, tokens, {
    padding: id("[PAD]"),
    unknown: id("[UNK]"),
    begin: id("[CLS]"),
    separator: id("[SEP]"),
    mask: id("[MASK]"),
  });
  const file = await open(to, "w");
  try {
    await writeGguf(file, { metadata, tensors: readTensors(await readFile(from.weights)) });
  } finally {
    await file.close();
  }
}

/** The file has a piece in each line. A piece that continues a word begins with `##`. */
function readVocabulary(text: string): readonly VocabularyToken[] {
  const special = new Set(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((piece) => {
      const isSpecial = special.has(piece);
      const continued = piece.startsWith("##") ? piece.slice(2) : WORD_START + piece;
      return {
        text: isSpecial ? piece : continued,
        score: 0,
        bias: 0,
        kind: isSpecial ? tokenKinds.control : tokenKinds.normal,
      };
    });
}

/** Reads the tensors of a safetensors file: the length of the header, the header as JSON, and the values. */
function readTensors(file: Buffer): readonly TensorSource[] {
  const headerEnd = 8 + Number(file.readBigUInt64LE(0));
  // The fields are not validated, because the digest of the file has been verified.
  const header: Record<string, PublishedTensor> = JSON.parse(
    file.subarray(8, headerEnd).toString(),
  );
  return Object.entries(header).flatMap(([published, { dtype, shape, data_offsets }]) => {
    const name = toTensorName(published);
    if (name === undefined) return [];
    const columns = shape.at(-1) ?? 0;
    const rows = shape.length === 2 ? (shape[0] ?? 0) : 1;
    const values = file.subarray(headerEnd + data_offsets[0], headerEnd + data_offsets[1]);
    const bytes = rowBytes("F32", columns);
    if (dtype !== "F32" || values.length !== rows * bytes)
      throw new Error(`${published} has an unexpected type or size`);
    return {
      name,
      type: "F32",
      rows,
      columns,
      vector: shape.length === 1,
      encodeRows: (first, count) => values.subarray(first * bytes, (first + count) * bytes),
    };
  });
}

function toTensorName(published: string): string | undefined {
  const [, layer, part = "", kind] =
    /^(?:encoder\.layer\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(published) ?? [];
  const name = TENSOR_NAMES[part];
  if (name === undefined) return undefined;
  return layer === undefined ? `${name}.${kind}` : `blk.${layer}.${name}.${kind}`;
}
