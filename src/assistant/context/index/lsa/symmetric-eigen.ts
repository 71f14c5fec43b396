/** Sweeps of the rotation; a matrix of some hundred rows needs fewer than ten. */
const SWEEPS_MAX = 30;

export interface Eigen {
  /** Largest first. */
  readonly values: Float64Array;
  /** Column j is the vector of values[j]: entry i stands at i * size + j. */
  readonly vectors: Float64Array;
}

/**
 * Eigenvalues and vectors of a symmetric matrix by Jacobi's cyclic rotations. Overwrites `matrix`.
 * Yields after each row.
 */
export function* symmetricEigen(matrix: Float64Array, size: number): Generator<void, Eigen> {
  const vectors = new Float64Array(size * size);
  for (let at = 0; at < size; at += 1) vectors[at * size + at] = 1;
  for (let sweep = 0; sweep < SWEEPS_MAX; sweep += 1) {
    let [off, on] = [0, 0];
    for (let p = 0; p < size; p += 1) {
      on += (matrix[p * size + p] ?? 0) ** 2;
      for (let q = p + 1; q < size; q += 1) off += (matrix[p * size + q] ?? 0) ** 2;
    }
    if (off <= on * 1e-22) break;
    for (let p = 0; p < size - 1; p += 1) {
      for (let q = p + 1; q < size; q += 1) rotate(matrix, vectors, size, p, q);
      yield;
    }
  }
  return sorted(matrix, vectors, size);
}

function rotate(
  matrix: Float64Array,
  vectors: Float64Array,
  size: number,
  p: number,
  q: number,
): void {
  const across = matrix[p * size + q] ?? 0;
  if (Math.abs(across) < 1e-300) return;
  const theta = ((matrix[q * size + q] ?? 0) - (matrix[p * size + p] ?? 0)) / (2 * across);
  const t = Math.sign(theta || 1) / (Math.abs(theta) + Math.hypot(theta, 1));
  const c = 1 / Math.hypot(t, 1);
  const s = t * c;
  for (let k = 0; k < size; k += 1) {
    const [a, b] = [matrix[k * size + p] ?? 0, matrix[k * size + q] ?? 0];
    matrix[k * size + p] = c * a - s * b;
    matrix[k * size + q] = s * a + c * b;
  }
  for (let k = 0; k < size; k += 1) {
    const [a, b] = [matrix[p * size + k] ?? 0, matrix[q * size + k] ?? 0];
    matrix[p * size + k] = c * a - s * b;
    matrix[q * size + k] = s * a + c * b;
    const [v, w] = [vectors[k * size + p] ?? 0, vectors[k * size + q] ?? 0];
    vectors[k * size + p] = c * v - s * w;
    vectors[k * size + q] = s * v + c * w;
  }
}

function sorted(matrix: Float64Array, vectors: Float64Array, size: number): Eigen {
  const order = Array.from({ length: size }, (_, at) => at).toSorted(
    (a, b) => (matrix[b * size + b] ?? 0) - (matrix[a * size + a] ?? 0),
  );
  const values = Float64Array.from(order, (at) => matrix[at * size + at] ?? 0);
  const arranged = new Float64Array(size * size);
  for (const [to, from] of order.entries())
    for (let row = 0; row < size; row += 1)
      arranged[row * size + to] = vectors[row * size + from] ?? 0;
  return { values, vectors: arranged };
}
