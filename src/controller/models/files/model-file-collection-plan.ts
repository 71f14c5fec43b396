/** The time after which a partial download that no model has requested is removed. */
const PARTIAL_KEPT_MS = 7 * 24 * 3_600_000;

export interface StoredContent {
  readonly name: string;
  readonly sizeBytes: number;
  /**
   * The time of the last use of a complete file, or of the last change of a partial download, in epoch milliseconds.
   */
  readonly usedMs: number;
  /** True if a model uses the file, or if it is being downloaded. */
  readonly isKept: boolean;
}

export interface ModelFileCollectionPlan {
  readonly partials: readonly StoredContent[];
  readonly blobs: readonly StoredContent[];
}

/**
 * Chooses the files to remove: first old partial downloads that no model needs. If the remaining files exceed the
 * budget, then other partial downloads and after them complete files, each in order of last use. Pure.
 */
export function planModelFileCollection(found: {
  readonly partials: readonly StoredContent[];
  readonly blobs: readonly StoredContent[];
  readonly budgetBytes: number | undefined;
  readonly nowMs: number;
}): ModelFileCollectionPlan {
  const { budgetBytes = Number.POSITIVE_INFINITY, nowMs } = found;
  let usedBytes = [...found.partials, ...found.blobs].reduce((sum, one) => sum + one.sizeBytes, 0);
  const take = (
    from: readonly StoredContent[],
    isDue: (one: StoredContent) => boolean,
  ): StoredContent[] => {
    const taken: StoredContent[] = [];
    for (const one of from.toSorted((a, b) => a.usedMs - b.usedMs)) {
      if (one.isKept || !isDue(one)) continue;
      taken.push(one);
      usedBytes -= one.sizeBytes;
    }
    return taken;
  };
  const partials = take(
    found.partials,
    ({ usedMs }) => nowMs - usedMs > PARTIAL_KEPT_MS || usedBytes > budgetBytes,
  );
  return { partials, blobs: take(found.blobs, () => usedBytes > budgetBytes) };
}
