import { formatBytes } from "../../base/units.ts";

/** A Model that is to run and whose file is on the disk. */
export interface MemoryCandidate {
  readonly name: string;
  /** When a person last started it, RFC 3339; null: nobody did. */
  readonly startedAt: string | null;
  readonly createdAt: string;
  /** Bytes that it has now; null where it is not in memory. */
  readonly residentBytes: number | null;
  /** The least with which it is of use. */
  readonly leastBytes: number;
}

export type MemoryDecision =
  /** With as much as leaves the others that are let in at least what they need. */
  | { readonly type: "fits"; readonly bytesMax: number }
  /** It comes next, once those have left. */
  | { readonly type: "waits"; readonly for: readonly string[] }
  | { readonly type: "refused"; readonly message: string };

/**
 * Who may be in memory: those that a person started last come first, then those that are there already,
 * then the oldest. Whoever does not fit beside those before it is refused, with what is missing. Pure, and
 * the same for everybody who asks, so that no two Models push each other out in turn.
 */
export function decideMemory(
  name: string,
  candidates: readonly MemoryCandidate[],
  memory: {
    readonly bytesMax: number;
    /** Of models that are kept in memory and are no Models. */
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
    return `it needs at least ${formatBytes(need)} of memory, and all models together may have ${formatBytes(bytesMax)}: ${formatBytes(need - bytesMax)} are missing; ${smaller}, or give the assistant more with --assistant-memory`;
  const others = before.map(({ name }) => name).join(", ");
  const beside = others === "" ? "" : ` beside ${others}`;
  const rest = otherBytes > 0 ? `, ${formatBytes(otherBytes)} are those of other models` : "";
  const stop = others === "" ? "" : `stop one of them (berth models stop ${before[0]?.name}), `;
  return `it needs at least ${formatBytes(need)} of memory, and ${formatBytes(Math.max(0, free))} of ${formatBytes(bytesMax)} are free${beside}${rest}: ${formatBytes(need - Math.max(0, free))} are missing; ${stop}${smaller}; berth models start ${candidate.name} puts it before the others`;
}
