import { rowBytes, type TensorSource, type TensorType } from "./write-gguf.ts";

export interface Weights {
  /** The standard deviation of the random values. If it is 0, all values equal `mean`. */
  readonly deviation: number;
  readonly mean?: number;
  /** The first value of each row; undefined if it is random like the others. */
  readonly firstOfRow?: (row: number) => number;
  /** If true, the first row is zero, so that a layer adds 0 to the first value of the hidden state. */
  readonly firstRowZero?: boolean;
}

/** The number of random values in the pool (4 MiB of them). Longer tensors repeat the values. */
const POOL_VALUES = 1 << 20;

/** Creates the tensors of one file. The same seed and the same calls produce the same bytes. */
export class WeightMaker {
  readonly #pool: Float32Array;
  readonly #stencils = new Map<string, Stencil>();
  #at = 0;

  /** `values` is the number of weights in the file. A file with few weights needs a smaller pool of random values. */
  constructor(seed: number, values: number) {
    this.#pool = uniformValues(seed, Math.min(POOL_VALUES, values + 4_096));
  }

  matrix(
    name: string,
    type: TensorType,
    rows: number,
    columns: number,
    weights: Weights,
  ): TensorSource {
    return this.#tensor(name, type, rows, columns, false, weights);
  }

  /** Returns a vector in F32, the type of norms and biases in every file. */
  vector(name: string, length: number, weights: Weights): TensorSource {
    return this.#tensor(name, "F32", 1, length, true, weights);
  }

  #tensor(
    name: string,
    type: TensorType,
    rows: number,
    columns: number,
    vector: boolean,
    weights: Weights,
  ): TensorSource {
    // Each tensor starts at its own position in the pool of random values, so that its bytes do not depend on the order
    // in which rows are read.
    const start = this.#at;
    this.#at = (this.#at + rows * columns + 7_919) % this.#pool.length;
    const stencil = weights.firstOfRow === undefined ? this.#stencil(type, weights) : undefined;
    const encodeRow = encoders[type];
    const encodeRows = (first: number, count: number): Uint8Array => {
      const bytesOfRow = rowBytes(type, columns);
      const bytes = new Uint8Array(bytesOfRow * count);
      const view = new DataView(bytes.buffer);
      const values = new Float32Array(columns);
      for (let index = 0; index < count; index++) {
        const row = first + index;
        if (row === 0 && weights.firstRowZero === true) continue;
        if (stencil !== undefined) {
          // Rows of a large matrix are copied from rows that are already encoded, because encoding each row is slow.
          bytes.set(stencil.window(start + row * columns, columns), index * bytesOfRow);
          continue;
        }
        this.#fill(values, start + row * columns, weights);
        if (weights.firstOfRow !== undefined) values[0] = weights.firstOfRow(row);
        encodeRow(view, index * bytesOfRow, values);
      }
      return bytes;
    };
    return { name, type, rows, columns, vector, encodeRows };
  }

  #stencil(type: TensorType, weights: Weights): Stencil {
    const key = `${type} ${weights.deviation} ${weights.mean ?? 0}`;
    let stencil = this.#stencils.get(key);
    if (stencil === undefined) {
      stencil = new Stencil(type, this.#pool.length, (values) => this.#fill(values, 0, weights));
      this.#stencils.set(key, stencil);
    }
    return stencil;
  }

  #fill(values: Float32Array, from: number, { deviation, mean = 0 }: Weights): void {
    const pool = this.#pool;
    for (let index = 0; index < values.length; index++) {
      values[index] = mean + deviation * (pool[(from + index) % pool.length] ?? 0);
    }
  }
}

/**
 * The pool of random values of a `WeightMaker`, encoded once for one tensor type. The rows of tensors are copied from
 * it, each from the beginning of a block of 32 values, because such a block is quantised as a whole.
 */
class Stencil {
  readonly #type: TensorType;
  readonly #poolValues: number;
  readonly #fill: (values: Float32Array) => void;
  #encoded: Uint8Array | undefined;

  constructor(type: TensorType, poolValues: number, fill: (values: Float32Array) => void) {
    this.#type = type;
    this.#poolValues = poolValues - (poolValues % 32);
    this.#fill = fill;
  }

  /**
   * Returns `length` encoded values of the pool, beginning with the block that contains the value at index `from`.
   * `length` must not exceed the number of values in the pool.
   */
  window(from: number, length: number): Uint8Array {
    // Two copies of the encoded pool are stored one after the other, so that a window at the end of the first copy
    // continues with the first values of the pool.
    this.#encoded ??= this.#encode(this.#poolValues * 2);
    const at = rowBytes(this.#type, (from - (from % 32)) % this.#poolValues);
    return this.#encoded.subarray(at, at + rowBytes(this.#type, length));
  }

  #encode(count: number): Uint8Array {
    const half = new Float32Array(count / 2);
    this.#fill(half);
    const bytes = new Uint8Array(rowBytes(this.#type, count));
    encoders[this.#type](new DataView(bytes.buffer), 0, half);
    bytes.copyWithin(bytes.length / 2, 0, bytes.length / 2);
    return bytes;
  }
}

type EncodeRow = (view: DataView, offset: number, values: Float32Array) => void;

const encoders: Record<TensorType, EncodeRow> = {
  F32: (view, offset, values) => {
    for (let index = 0; index < values.length; index++) {
      view.setFloat32(offset + index * 4, values[index] ?? 0, true);
    }
  },
  F16: (view, offset, values) => {
    for (let index = 0; index < values.length; index++) {
      view.setUint16(offset + index * 2, halfBits(values[index] ?? 0), true);
    }
  },
  Q4_0: encodeFourBits,
  Q8_0: (view, offset, values) => {
    let at = offset;
    for (let block = 0; block < values.length; block += 32) {
      let largest = 0;
      for (let index = 0; index < 32; index++) {
        largest = Math.max(largest, Math.abs(values[block + index] ?? 0));
      }
      const scale = largest / 127;
      view.setUint16(at, halfBits(scale), true);
      at += 2;
      for (let index = 0; index < 32; index++) {
        view.setInt8(at++, scale === 0 ? 0 : Math.round((values[block + index] ?? 0) / scale));
      }
    }
  },
};

/** Writes blocks of 32 values with 4 bits each, which are multiples of a common scale. */
function encodeFourBits(view: DataView, offset: number, values: Float32Array): void {
  for (let block = 0; block < values.length; block += 32) {
    let largest = 0;
    for (const value of values.subarray(block, block + 32))
      if (Math.abs(value) > Math.abs(largest)) largest = value;
    // The value with the largest magnitude becomes -8, the end of the scale.
    const scale = largest / -8;
    const quantize = (index: number): number =>
      scale === 0
        ? 8
        : Math.min(15, Math.max(0, Math.round((values[block + index] ?? 0) / scale) + 8));
    const at = offset + (block / 32) * 18;
    view.setUint16(at, halfBits(scale), true);
    for (let index = 0; index < 16; index++)
      view.setUint8(at + 2 + index, quantize(index) | (quantize(index + 16) << 4));
  }
}

const floatView = new DataView(new ArrayBuffer(4));

/** Encodes IEEE 754 half precision, rounded to nearest; values that are too large become infinite. */
export function halfBits(value: number): number {
  floatView.setFloat32(0, value);
  const bits = floatView.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  const mantissa = bits & 0x7fffff;
  if (((bits >>> 23) & 0xff) === 0xff) return sign | 0x7c00 | (mantissa === 0 ? 0 : 0x200);
  if (exponent >= 31) return sign | 0x7c00;
  if (exponent <= 0) {
    if (exponent < -10) return sign;
    // In a subnormal number the hidden bit becomes explicit, and the mantissa is shifted to the right.
    const shifted = (mantissa | 0x800000) >>> (1 - exponent);
    return sign | ((shifted + 0x1000) >>> 13);
  }
  // Rounding may carry into the exponent, which gives the correct result.
  return (sign | (exponent << 10) | (mantissa >>> 13)) + ((mantissa >>> 12) & 1);
}

/**
 * Returns uniform values with mean 0 and deviation 1, without outliers that would reduce the precision of a quantised
 * block.
 */
function uniformValues(seed: number, count: number): Float32Array {
  const values = new Float32Array(count);
  let state = (seed ^ 0x9e3779b9) | 0 || 1;
  for (let index = 0; index < count; index++) {
    // The random numbers are generated by the xorshift32 algorithm.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    values[index] = (state / 2_147_483_648) * Math.sqrt(3);
  }
  return values;
}
