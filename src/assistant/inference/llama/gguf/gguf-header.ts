import type { FileHandle } from "node:fs/promises";
import { FileCursor } from "./file-cursor.ts";
import { GgufError } from "./gguf-error.ts";
import { getTensorType, type TensorType } from "./tensor-types.ts";

/** The validated part of a GGUF file before the weights. */
export interface GgufHeader {
  readonly metadata: ReadonlyMap<string, MetadataValue>;
  readonly tensors: readonly Tensor[];
  /** The offset of the weights in bytes. */
  readonly dataStart: number;
}

/** A value of the metadata. A long list is validated, but only its length is kept: a vocabulary has 150,000 tokens. */
export type MetadataValue =
  | string
  | number
  | boolean
  | readonly number[]
  | { readonly listLength: number };

export interface Tensor {
  readonly name: string;
  readonly type: TensorType;
  readonly values: number;
  readonly bytes: number;
}

/**
 * Lists up to this length are kept, because some of them have a number for each layer. The largest known
 * model has about 200 layers.
 */
const LIST_VALUES_MAX = 1024;
/**
 * The limits GGML_MAX_NAME and GGML_MAX_DIMS of llama.cpp. `readHeader` refuses a file that exceeds them, because
 * llama.cpp may abort the process for such a file.
 */
const TENSOR_NAME_BYTES_MAX = 63;
const DIMENSIONS_MAX = 4;
const KEY_BYTES_MAX = 65_535;
/** The maximum length of a text in the metadata, far above the longest known chat template, which has 100 KiB. */
const TEXT_BYTES_MAX = 64 << 20;
/** The minimum size of an entry in bytes, which limits the counts that a file can claim. */
const METADATA_BYTES_MIN = 8 + 4 + 1;
const TENSOR_BYTES_MIN = 8 + 4 + 8 + 4 + 8;

/** GGUF's scalar types by their number in the file. */
const scalarTypes: Readonly<
  Record<number, { bytes: number; read(bytes: Buffer): number | boolean }>
> = {
  0: { bytes: 1, read: (bytes) => bytes.readUInt8(0) },
  1: { bytes: 1, read: (bytes) => bytes.readInt8(0) },
  2: { bytes: 2, read: (bytes) => bytes.readUInt16LE(0) },
  3: { bytes: 2, read: (bytes) => bytes.readInt16LE(0) },
  4: { bytes: 4, read: (bytes) => bytes.readUInt32LE(0) },
  5: { bytes: 4, read: (bytes) => bytes.readInt32LE(0) },
  6: { bytes: 4, read: (bytes) => bytes.readFloatLE(0) },
  7: { bytes: 1, read: (bytes) => bytes.readUInt8(0) !== 0 },
  10: { bytes: 8, read: (bytes) => Number(bytes.readBigUInt64LE(0)) },
  11: { bytes: 8, read: (bytes) => Number(bytes.readBigInt64LE(0)) },
  12: { bytes: 8, read: (bytes) => bytes.readDoubleLE(0) },
};
const TEXT_TYPE = 8;
const LIST_TYPE = 9;

/**
 * Reads the header and checks that everything it describes is within the file. Throws GgufError. Native
 * code, which aborts its process for some of these errors, reads only files that passed.
 */
export async function readHeader(
  file: FileHandle,
  fileBytes: number,
  signal: AbortSignal,
): Promise<GgufHeader> {
  const cursor = new FileCursor(file, fileBytes, signal);
  if (fileBytes < 24) throw new GgufError("the file is too short to be a GGUF file");
  await cursor.ensureAvailable(24);
  if (cursor.bytes(4).toString("latin1") !== "GGUF")
    throw new GgufError("the file is not a GGUF file");
  const version = cursor.uint32();
  if (version !== 2 && version !== 3) {
    throw new GgufError(
      `the file has version ${version} of the GGUF format; versions 2 and 3 are supported`,
    );
  }
  const tensorCount = cursor.uint64();
  const metadataCount = cursor.uint64();
  if (metadataCount * METADATA_BYTES_MIN + tensorCount * TENSOR_BYTES_MIN > fileBytes) {
    throw new GgufError("the header announces more keys and tensors than the file can contain");
  }
  const metadata = await readMetadata(cursor, metadataCount);
  const placed = await readTensors(cursor, tensorCount);
  const alignment = metadata.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || alignment < 8 || (alignment & (alignment - 1)) !== 0) {
    throw new GgufError("the alignment of the tensors is not a power of two of at least 8");
  }
  const dataStart = Math.ceil(cursor.offset / alignment) * alignment;
  for (const { name, offset, bytes } of placed) {
    if (offset % alignment !== 0) throw new GgufError(`tensor ${name} is not aligned`);
    if (dataStart + offset + bytes > fileBytes) {
      throw new GgufError(
        `tensor ${name} should end at byte ${dataStart + offset + bytes}, but the file has ${fileBytes}: it was not copied or downloaded completely`,
      );
    }
  }
  return { metadata, tensors: placed, dataStart };
}

async function readMetadata(
  cursor: FileCursor,
  count: number,
): Promise<Map<string, MetadataValue>> {
  const metadata = new Map<string, MetadataValue>();
  for (let index = 0; index < count; index++) {
    const key = await readText(cursor, KEY_BYTES_MAX, "a key");
    if (metadata.has(key)) throw new GgufError(`the file contains the key ${key} twice`);
    await cursor.ensureAvailable(4);
    metadata.set(key, await readValue(cursor, cursor.uint32(), key));
  }
  return metadata;
}

async function readValue(cursor: FileCursor, type: number, key: string): Promise<MetadataValue> {
  if (type === TEXT_TYPE) return readText(cursor, TEXT_BYTES_MAX, key);
  if (type === LIST_TYPE) return readList(cursor, key);
  const scalar = scalarTypes[type];
  if (!scalar) throw new GgufError(`${key} has the unknown type ${type}`);
  await cursor.ensureAvailable(scalar.bytes);
  return scalar.read(cursor.bytes(scalar.bytes));
}

async function readList(cursor: FileCursor, key: string): Promise<MetadataValue> {
  await cursor.ensureAvailable(12);
  const type = cursor.uint32();
  const length = cursor.uint64();
  if (type === TEXT_TYPE) {
    if (length * 8 > cursor.remaining)
      throw new GgufError(`the value of ${key} is longer than the file`);
    for (let index = 0; index < length; index++) {
      const filled = cursor.ensureAvailable(8);
      if (filled) await filled;
      cursor.skip(cursor.uint64());
    }
    return { listLength: length };
  }
  const scalar = scalarTypes[type];
  if (!scalar) throw new GgufError(`${key} is a list of the unknown type ${type}`);
  if (length * scalar.bytes > cursor.remaining)
    throw new GgufError(`the value of ${key} is longer than the file`);
  if (length > LIST_VALUES_MAX) {
    cursor.skip(length * scalar.bytes);
    return { listLength: length };
  }
  const values: number[] = [];
  for (let index = 0; index < length; index++) {
    const filled = cursor.ensureAvailable(scalar.bytes);
    if (filled) await filled;
    values.push(Number(scalar.read(cursor.bytes(scalar.bytes))));
  }
  return values;
}

async function readText(cursor: FileCursor, bytesMax: number, what: string): Promise<string> {
  await cursor.ensureAvailable(8);
  const length = cursor.uint64();
  if (length > Math.min(bytesMax, cursor.remaining)) {
    throw new GgufError(`${what} is longer than the format allows`);
  }
  await cursor.ensureAvailable(length);
  return cursor.bytes(length).toString("utf8");
}

interface PlacedTensor extends Tensor {
  /** The tensor's offset in bytes from the start of the weights. */
  readonly offset: number;
}

async function readTensors(cursor: FileCursor, count: number): Promise<PlacedTensor[]> {
  const tensors: PlacedTensor[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index++) {
    const name = await readText(cursor, TENSOR_NAME_BYTES_MAX, `the name of tensor ${index}`);
    if (names.has(name)) throw new GgufError(`the file contains the tensor ${name} twice`);
    names.add(name);
    await cursor.ensureAvailable(4);
    const dimensionCount = cursor.uint32();
    if (dimensionCount < 1 || dimensionCount > DIMENSIONS_MAX) {
      throw new GgufError(
        `tensor ${name} has ${dimensionCount} dimensions, but only 1 to ${DIMENSIONS_MAX} are possible`,
      );
    }
    await cursor.ensureAvailable(dimensionCount * 8 + 12);
    const dimensions = Array.from({ length: dimensionCount }, () => cursor.uint64());
    const typeId = cursor.uint32();
    const offset = cursor.uint64();
    tensors.push({ name, offset, ...measureTensor(name, dimensions, typeId) });
  }
  return tensors;
}

function measureTensor(name: string, dimensions: readonly number[], typeId: number) {
  const type = getTensorType(typeId);
  if (!type) throw new GgufError(`tensor ${name} has the unknown type ${typeId}`);
  const values = dimensions.reduce((product, dimension) => product * dimension, 1);
  const [row = 0] = dimensions;
  if (values === 0 || !Number.isSafeInteger(values) || row % type.blockValues !== 0) {
    throw new GgufError(`tensor ${name} has the impossible shape ${dimensions.join(" x ")}`);
  }
  return { type, values, bytes: (values / type.blockValues) * type.blockBytes };
}
