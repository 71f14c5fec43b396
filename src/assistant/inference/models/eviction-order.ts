/** What a model needs in order to be loaded, in bytes. */
export interface MemoryNeed {
  /** With all that the engine would like to give it. */
  readonly wanted: number;
  /** With the least that is of use. */
  readonly least: number;
}

/** A model that takes memory. */
export interface Occupant {
  readonly memoryBytes: number;
  /** Somebody wants it there at all times. */
  readonly isPinned: boolean;
  /** Resident, and nobody uses it. */
  readonly isIdle: boolean;
  /** It is being unloaded already. */
  readonly isUnloading: boolean;
  /** By the clock, in milliseconds. */
  readonly lastUsed: number;
}

/**
 * Who is unloaded next for a newcomer; `wait`: somebody may make room by and by; `nobody`: what is free
 * is all that it gets. In this order:
 *
 * 1. Models that are there on demand go for all that the newcomer wants: the idle ones at once, those in
 *    use when they are done, unless that takes too long (`isLate`).
 * 2. Pinned models go only where the newcomer would not fit even with its least, and only where that is
 *    enough: none is unloaded for a larger context of another, and none in vain.
 */
export function chooseEviction<T extends Occupant>(
  others: readonly T[],
  need: MemoryNeed,
  { freeBytes, isLate }: { readonly freeBytes: number; readonly isLate: boolean },
): T | "wait" | "none" {
  if (freeBytes >= need.wanted || others.length === 0) return "none";
  const [idle] = leastRecentlyUsed(others.filter((one) => one.isIdle && !one.isPinned));
  if (idle) return idle;
  const busy = others.filter((one) => !one.isIdle);
  const evictable = busy.filter((one) => one.isUnloading || !one.isPinned);
  const fits = freeBytes >= need.least;
  const wouldFit = freeBytes + sumMemoryBytes(evictable) >= need.least;
  if (!isLate && evictable.length > 0 && (fits || wouldFit)) return "wait";
  if (fits) return "none";
  const pinned = leastRecentlyUsed(others.filter((one) => one.isIdle && one.isPinned));
  if (pinned[0] && freeBytes + sumMemoryBytes(pinned) >= need.least) return pinned[0];
  return !isLate && busy.length > 0 ? "wait" : "none";
}

function leastRecentlyUsed<T extends Occupant>(occupants: readonly T[]): T[] {
  return occupants.toSorted((one, other) => one.lastUsed - other.lastUsed);
}

function sumMemoryBytes(occupants: readonly Occupant[]): number {
  return occupants.reduce((total, { memoryBytes }) => total + memoryBytes, 0);
}
