import type { SparseRows } from "./sparse-rows.ts";
import { symmetricEigen } from "./symmetric-eigen.ts";

export interface SvdOptions {
  readonly dimensions: number;
  /** More of them tell near singular values apart better. */
  readonly iterations: number;
  readonly seed: number;
}

export interface RightVectors {
  /** May be fewer than were asked for: a matrix has no more than its rank. */
  readonly dimensions: number;
  /** Row i stands from i * dimensions: where column i of the matrix lies in the space. */
  readonly vectors: Float32Array;
  readonly singularValues: Float64Array;
}

/** Directions beyond those that are wanted, which make the wanted ones exact sooner (Halko, Martinsson, Tropp 2011). */
const EXTRA = 10;
/** Entries worked on between two yields: a few milliseconds. */
const STEP_WORK = 4_000_000;

/**
 * The largest singular values of a sparse matrix and their right vectors, by subspace iteration from a
 * seeded random start: the same input gives the same output. Yields every few milliseconds, so that
 * whoever runs it can do something else in between.
 */
export function* truncatedSvd(
  matrix: SparseRows,
  { dimensions, iterations, seed }: SvdOptions,
): Generator<void, RightVectors> {
  const { rows, columns } = matrix;
  const width = Math.min(dimensions + EXTRA, rows, columns);
  if (width === 0)
    return { dimensions: 0, vectors: new Float32Array(0), singularValues: new Float64Array(0) };
  let basis: Float32Array = gaussian(columns * width, seed);
  yield* orthonormalize(basis, columns, width);
  for (let round = 0; round < iterations; round += 1) {
    basis = yield* timesGram(matrix, basis, width);
    yield* orthonormalize(basis, columns, width);
  }
  const small = yield* projected(matrix, basis, width);
  const { values, vectors } = yield* symmetricEigen(small, width);
  const largest = values[0] ?? 0;
  let kept = 0;
  while (kept < Math.min(dimensions, width) && (values[kept] ?? 0) > largest * 1e-10) kept += 1;
  return {
    dimensions: kept,
    vectors: yield* timesSmall(basis, columns, width, vectors, kept),
    singularValues: values.slice(0, kept).map((value) => Math.sqrt(Math.max(0, value))),
  };
}

/** Transposed matrix times matrix times basis, one row at a time: nothing as tall as the matrix is kept. */
function* timesGram(
  matrix: SparseRows,
  basis: Float32Array,
  width: number,
): Generator<void, Float32Array> {
  const product = new Float32Array(basis.length);
  const row = new Float64Array(width);
  let work = 0;
  for (let at = 0; at < matrix.rows; at += 1) {
    const [from, to] = [matrix.starts[at] ?? 0, matrix.starts[at + 1] ?? 0];
    rowTimes(matrix, from, to, basis, width, row);
    for (let entry = from; entry < to; entry += 1) {
      const [value, base] = [matrix.values[entry] ?? 0, (matrix.columnOf[entry] ?? 0) * width];
      for (let k = 0; k < width; k += 1) product[base + k]! += value * row[k]!;
    }
    work += (to - from) * width * 2;
    if (work > STEP_WORK) {
      work = 0;
      yield;
    }
  }
  return product;
}

function rowTimes(
  matrix: SparseRows,
  from: number,
  to: number,
  basis: Float32Array,
  width: number,
  row: Float64Array,
): void {
  row.fill(0);
  for (let entry = from; entry < to; entry += 1) {
    const [value, base] = [matrix.values[entry] ?? 0, (matrix.columnOf[entry] ?? 0) * width];
    for (let k = 0; k < width; k += 1) row[k]! += value * basis[base + k]!;
  }
}

/** The matrix seen from the basis: (A Q)ᵀ (A Q). */
function* projected(
  matrix: SparseRows,
  basis: Float32Array,
  width: number,
): Generator<void, Float64Array> {
  const small = new Float64Array(width * width);
  const row = new Float64Array(width);
  let work = 0;
  for (let at = 0; at < matrix.rows; at += 1) {
    const [from, to] = [matrix.starts[at] ?? 0, matrix.starts[at + 1] ?? 0];
    rowTimes(matrix, from, to, basis, width, row);
    addOuter(small, row, 0, width);
    work += (to - from + width) * width;
    if (work > STEP_WORK) {
      work = 0;
      yield;
    }
  }
  mirror(small, width);
  return small;
}

/** Adds the upper half of the outer product of `width` numbers with themselves. */
function addOuter(
  target: Float64Array,
  source: Float32Array | Float64Array,
  base: number,
  width: number,
): void {
  for (let i = 0; i < width; i += 1) {
    const value = source[base + i]!;
    if (value === 0) continue;
    for (let j = i; j < width; j += 1) target[i * width + j]! += value * source[base + j]!;
  }
}

function mirror(matrix: Float64Array, size: number): void {
  for (let i = 0; i < size; i += 1)
    for (let j = 0; j < i; j += 1) matrix[i * size + j] = matrix[j * size + i] ?? 0;
}

/**
 * Makes the columns orthonormal, in place, by Cholesky's factor of their Gram matrix: two walks over the
 * rows instead of one for each pair of columns. A column that depends on others becomes 0.
 */
function* orthonormalize(basis: Float32Array, rows: number, width: number): Generator<void> {
  const gram = new Float64Array(width * width);
  const stepRows = Math.max(1, Math.floor(STEP_WORK / width ** 2));
  for (let at = 0; at < rows; at += 1) {
    addOuter(gram, basis, at * width, width);
    if (at % stepRows === stepRows - 1) yield;
  }
  const factor = cholesky(gram, width);
  for (let at = 0; at < rows; at += 1) {
    const base = at * width;
    for (let j = 0; j < width; j += 1) {
      let sum = basis[base + j]!;
      for (let k = 0; k < j; k += 1) sum -= basis[base + k]! * factor[k * width + j]!;
      const pivot = factor[j * width + j]!;
      basis[base + j] = pivot === 0 ? 0 : sum / pivot;
    }
    if (at % stepRows === stepRows - 1) yield;
  }
}

/** The upper factor R of RᵀR = gram; 0 stands on the diagonal where a column adds nothing. */
function cholesky(gram: Float64Array, size: number): Float64Array {
  const factor = new Float64Array(size * size);
  for (let j = 0; j < size; j += 1) {
    const own = gram[j * size + j]!;
    let rest = own;
    for (let k = 0; k < j; k += 1) rest -= factor[k * size + j]! ** 2;
    const pivot = rest > own * 1e-10 ? Math.sqrt(rest) : 0;
    factor[j * size + j] = pivot;
    for (let i = j + 1; i < size; i += 1) {
      let sum = gram[j * size + i]!;
      for (let k = 0; k < j; k += 1) sum -= factor[k * size + j]! * factor[k * size + i]!;
      factor[j * size + i] = pivot === 0 ? 0 : sum / pivot;
    }
  }
  return factor;
}

function* timesSmall(
  basis: Float32Array,
  rows: number,
  width: number,
  small: Float64Array,
  kept: number,
): Generator<void, Float32Array> {
  const product = new Float32Array(rows * kept);
  const stepRows = Math.max(1, Math.floor(STEP_WORK / (width * Math.max(1, kept))));
  for (let at = 0; at < rows; at += 1) {
    for (let k = 0; k < width; k += 1) {
      const value = basis[at * width + k]!;
      if (value === 0) continue;
      for (let j = 0; j < kept; j += 1) product[at * kept + j]! += value * small[k * width + j]!;
    }
    if (at % stepRows === stepRows - 1) yield;
  }
  return product;
}

/** Normal numbers from a seed alone: mulberry32 and Box and Muller's transform. */
function gaussian(count: number, seed: number): Float32Array {
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 1) / 4_294_967_297;
  };
  return Float32Array.from(
    { length: count },
    () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random()),
  );
}
