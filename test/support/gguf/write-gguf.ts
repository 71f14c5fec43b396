import type { FileHandle } from "node:fs/promises";

/** A metadata value with the type that it has in the file. */
export type TypedMetadataValue =
  | { readonly type: "uint16"; readonly value: number }
  | { readonly type: "int32"; readonly value: number }
  | { readonly type: "uint32"; readonly value: number }
  | { readonly type: "int32s"; readonly value: readonly number[] }
  | { readonly type: "float32"; readonly value: number }
  | { readonly type: "float32s"; readonly value: readonly number[] }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] };

export type TensorType = "F32" | "F16" | "Q8_0" | "Q4_0";

/** A matrix of `rows` times `columns`. If `vector` is true, it is one-dimensional in the file. */
export interface TensorSource {
  readonly name: string;
  readonly type: TensorType;
  readonly rows: number;
  readonly columns: number;
  readonly vector: boolean;
  /** Returns the encoded bytes of `count` rows, beginning with row `first`. The writer requests all rows in order. */
  encodeRows(first: number, count: number): Uint8Array;
}

export interface GgufFile {
  readonly metadata: ReadonlyMap<string, TypedMetadataValue>;
  readonly tensors: readonly TensorSource[];
}

const VERSION = 3;
/** The alignment of tensors. It is the default of the format. */
const ALIGNMENT = 32;
/** The number of bytes that are encoded at a time, so that a file of 240 MB is never completely in memory. */
const CHUNK_BYTES = 1 << 20;

const TYPE_IDS: Record<TensorType, number> = { F32: 0, F16: 1, Q8_0: 8, Q4_0: 2 };
const BLOCK_VALUES = 32;
const BLOCK_BYTES = { Q8_0: 34, Q4_0: 18 } as const;

export function rowBytes(type: TensorType, columns: number): number {
  if (type === "F32") return columns * 4;
  if (type === "F16") return columns * 2;
  if (columns % BLOCK_VALUES !== 0)
    throw new Error(`a row of ${columns} values does not consist of whole blocks`);
  return (columns / BLOCK_VALUES) * BLOCK_BYTES[type];
}

export async function writeGguf(file: FileHandle, model: GgufFile): Promise<void> {
  const header = encodeHeader(model);
  await file.write(header);
  for (const tensor of model.tensors) {
    const bytesOfRow = rowBytes(tensor.type, tensor.columns);
    const rowsAtOnce = Math.max(1, Math.floor(CHUNK_BYTES / bytesOfRow));
    for (let first = 0; first < tensor.rows; first += rowsAtOnce) {
      await file.write(tensor.encodeRows(first, Math.min(rowsAtOnce, tensor.rows - first)));
    }
    await file.write(new Uint8Array(padding(bytesOfRow * tensor.rows)));
  }
}

/** Encodes the magic, version, counts, metadata, tensor descriptions, and the padding before the first tensor. */
export function encodeHeader(model: GgufFile): Uint8Array {
  const out = new ByteList();
  out.raw(Buffer.from("GGUF"));
  out.uint32(VERSION);
  out.uint64(model.tensors.length);
  out.uint64(model.metadata.size);
  for (const [key, value] of model.metadata) {
    out.string(key);
    encodeValue(out, value);
  }
  let offset = 0;
  for (const tensor of model.tensors) {
    out.string(tensor.name);
    // The dimension that varies fastest is written first.
    const dimensions = tensor.vector ? [tensor.columns] : [tensor.columns, tensor.rows];
    out.uint32(dimensions.length);
    for (const dimension of dimensions) out.uint64(dimension);
    out.uint32(TYPE_IDS[tensor.type]);
    out.uint64(offset);
    const bytes = rowBytes(tensor.type, tensor.columns) * tensor.rows;
    offset += bytes + padding(bytes);
  }
  out.raw(new Uint8Array(padding(out.length)));
  return out.bytes();
}

function padding(bytes: number): number {
  return (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;
}

const VALUE_IDS = { uint16: 2, uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 };

function encodeValue(out: ByteList, { type, value }: TypedMetadataValue): void {
  switch (type) {
    case "uint16":
      out.uint32(VALUE_IDS.uint16);
      return out.raw(Uint8Array.of(value & 0xff, value >> 8));
    case "int32":
      out.uint32(VALUE_IDS.int32);
      return out.int32(value);
    case "uint32":
      out.uint32(VALUE_IDS.uint32);
      return out.uint32(value);
    case "float32":
      out.uint32(VALUE_IDS.float32);
      return out.float32(value);
    case "bool":
      out.uint32(VALUE_IDS.bool);
      return out.raw(Uint8Array.of(value ? 1 : 0));
    case "string":
      out.uint32(VALUE_IDS.string);
      return out.string(value);
    case "int32s":
      encodeArrayHead(out, VALUE_IDS.int32, value.length);
      for (const item of value) out.int32(item);
      return;
    case "float32s":
      encodeArrayHead(out, VALUE_IDS.float32, value.length);
      for (const item of value) out.float32(item);
      return;
    case "strings":
      encodeArrayHead(out, VALUE_IDS.string, value.length);
      for (const item of value) out.string(item);
  }
}

function encodeArrayHead(out: ByteList, itemId: number, length: number): void {
  out.uint32(VALUE_IDS.array);
  out.uint32(itemId);
  out.uint64(length);
}

/** A list of bytes. All numbers of the format are in little-endian order. */
class ByteList {
  length = 0;
  readonly #parts: Uint8Array[] = [];

  raw(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.length += bytes.length;
  }

  uint32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    this.raw(bytes);
  }

  int32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    this.raw(bytes);
  }

  uint64(value: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    this.raw(bytes);
  }

  float32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    this.raw(bytes);
  }

  string(text: string): void {
    const bytes = Buffer.from(text);
    this.uint64(bytes.length);
    this.raw(bytes);
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}
