import { formatBytes } from "../../base/units.ts";

/** A Model that should run and whose file is on the disk. */
export interface MemoryCandidate {
  readonly name: string;
  /** The time of the last start by a user, in RFC 3339; null if there was none. */
  readonly startedAt: string | null;
  readonly createdAt: string;
  /** The memory in bytes that the Model uses now; null if it is not in memory. */
  readonly residentBytes: number | null;
  /** The smallest amount of memory with which the Model can run. */
  readonly leastBytes: number;
}

export type MemoryDecision =
  /** The memory limit for this model. It leaves the other admitted models at least the memory that they need. */
  | { readonly type: "fits"; readonly bytesMax: number }
  /** The model is loaded after these models have been unloaded. */
  | { readonly type: "waits"; readonly for: readonly string[] }
  | { readonly type: "refused"; readonly message: string };

/**
 * Decides which models may be in memory. The order is: models that a user started, the most recently started first;
 * then models in memory; then the oldest models. A model that does not fit in addition to those before it is refused,
 * with the missing amount. Pure. The result does not depend on the model that asks, so that no two Models evict each
 * other in turn.
 */
export function decideMemory(
  name: string,
  candidates: readonly MemoryCandidate[],
  memory: {
    readonly bytesMax: number;
    /** The memory in use by the assistant's pinned models that belong to no Model resource. */
    readonly otherBytes: number;
  },
): MemoryDecision {
  let free = memory.bytesMax - memory.otherBytes;
  const admitted: MemoryCandidate[] = [];
  const evicted: MemoryCandidate[] = [];
  let refusal: string | undefined;
  for (const candidate of candidates.toSorted(compareByRank)) {
    const need = getNeededBytes(candidate);
    if (need <= free) {
      free -= need;
      admitted.push(candidate);
      continue;
    }
    if (candidate.residentBytes !== null) evicted.push(candidate);
    if (candidate.name === name) refusal = explainRefusal(candidate, need, free, admitted, memory);
  }
  if (refusal !== undefined) return { type: "refused", message: refusal };
  const self = candidates.find((candidate) => candidate.name === name);
  const taken = candidates.reduce((sum, { residentBytes }) => sum + (residentBytes ?? 0), 0);
  const freeNow = memory.bytesMax - memory.otherBytes - taken;
  if (self && self.residentBytes === null && evicted.length > 0 && self.leastBytes > freeNow)
    return { type: "waits", for: evicted.map((candidate) => candidate.name) };
  return { type: "fits", bytesMax: free + (self ? getNeededBytes(self) : 0) };
}

function getNeededBytes({ residentBytes, leastBytes }: MemoryCandidate): number {
  return residentBytes ?? leastBytes;
}

function compareByRank(one: MemoryCandidate, other: MemoryCandidate): number {
  if (one.startedAt !== other.startedAt) {
    if (one.startedAt === null) return 1;
    if (other.startedAt === null) return -1;
    return one.startedAt < other.startedAt ? 1 : -1;
  }
  return (
    Number(other.residentBytes !== null) - Number(one.residentBytes !== null) ||
    compare(one.createdAt, other.createdAt) ||
    compare(one.name, other.name)
  );
}

const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

function explainRefusal(
  candidate: MemoryCandidate,
  need: number,
  free: number,
  before: readonly MemoryCandidate[],
  { bytesMax, otherBytes }: { readonly bytesMax: number; readonly otherBytes: number },
): string {
  const smaller = "set a smaller contextSize or parallel, or choose a smaller quantization";
  if (need > bytesMax)
    return `the model needs at least ${formatBytes(need)} of memory, but the limit for all models is ${formatBytes(bytesMax)}: ${formatBytes(need - bytesMax)} are missing; ${smaller}, or give the assistant more with --assistant-memory`;
  const others = before.map(({ name }) => name).join(", ");
  const beside = others === "" ? "" : ` in addition to ${others}`;
  const rest = otherBytes > 0 ? `, ${formatBytes(otherBytes)} are used by other models` : "";
  const stop =
    others === "" ? "" : `stop one of these models (berth models stop ${before[0]?.name}), `;
  return `the model needs at least ${formatBytes(need)} of memory, and ${formatBytes(Math.max(0, free))} of ${formatBytes(bytesMax)} are free${beside}${rest}: ${formatBytes(need - Math.max(0, free))} are missing; ${stop}${smaller}; berth models start ${candidate.name} gives it priority over the others`;
}
