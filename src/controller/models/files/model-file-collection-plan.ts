/** Half a download that nobody has asked for since is not gone on with. */
const PARTIAL_KEPT_MS = 7 * 24 * 3_600_000;

export interface StoredContent {
  readonly name: string;
  readonly sizeBytes: number;
  /** When it was last of use. */
  readonly usedMs: number;
  /** Some model has it, or it is on its way: it stays. */
  readonly isKept: boolean;
}

export interface ModelFileCollectionPlan {
  readonly partials: readonly StoredContent[];
  readonly blobs: readonly StoredContent[];
}

/**
 * What goes: halves that nobody wants, when they are old; and until everything fits into the budget, first the
 * other halves, then whole files, each the longest unused first. Pure.
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
