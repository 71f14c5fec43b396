/** The memory that a model needs, in bytes. */
export interface MemoryNeed {
  /**
   * The memory that the model needs with the context size and the number of KV-cache sequences that the engine prefers.
   */
  readonly wanted: number;
  /**
   * The memory that the model needs with the smallest context size that is useful for requests, and with one KV-cache
   * sequence.
   */
  readonly least: number;
}

/** A model that uses memory. */
export interface Occupant {
  readonly memoryBytes: number;
  /** True if the model is to be loaded at all times. */
  readonly isPinned: boolean;
  /** True if the model is resident and no request uses it. */
  readonly isIdle: boolean;
  /** True while the model is being unloaded. */
  readonly isUnloading: boolean;
  /** The time at which a request last used the model, in milliseconds since the Unix epoch. */
  readonly lastUsed: number;
}

/**
 * Chooses the model to evict for a newcomer, a model that is to be loaded. Returns `wait` if models in use may become
 * idle, and `none` if the newcomer gets only the free memory. The rules:
 *
 * 1. Unpinned models are evicted until all that the newcomer wants is free: idle ones at once, models in use when they
 *    become idle, unless that takes too long (`isLate`).
 * 2. Pinned models are evicted only if the newcomer would otherwise not fit even with its smallest need (`least`), and
 *    only if evicting them is enough.
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
