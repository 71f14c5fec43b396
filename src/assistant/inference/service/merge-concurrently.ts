/**
 * Iterates over `start(0)` to `start(count - 1)`, at most `concurrency` of them at a time, and yields their items as
 * they arrive. An iterable is pulled again only after the caller has received its previous item. When the caller ends
 * the loop or an iterable fails, `abortRemaining` is called, which must settle all pending pulls; then the other
 * iterables are ended.
 */
export function mergeConcurrently<T>(
  count: number,
  concurrency: number,
  start: (index: number) => AsyncIterable<T>,
  abortRemaining: () => void,
): AsyncIterable<T> {
  return count === 1 ? start(0) : mergeSources(count, concurrency, start, abortRemaining);
}

async function* mergeSources<T>(
  count: number,
  concurrency: number,
  start: (index: number) => AsyncIterable<T>,
  abortRemaining: () => void,
): AsyncGenerator<T, void, void> {
  const open = new Set<AsyncIterator<T>>();
  /**
   * The pending pulls, at most one for each iterator. While the caller processes an item, its iterator has no pending
   * pull.
   */
  const pulls = new Map<AsyncIterator<T>, Promise<Pulled<T>>>();
  const pull = (source: AsyncIterator<T>) => {
    const pulled = source.next().then((result) => ({ source, result }));
    // A failure is ignored here: Promise.race below reports it, unless it comes too late to matter.
    pulled.catch(() => {});
    pulls.set(source, pulled);
  };
  let next = 0;
  try {
    for (;;) {
      while (open.size < concurrency && next < count) {
        const source = start(next++)[Symbol.asyncIterator]();
        open.add(source);
        pull(source);
      }
      if (open.size === 0) return;
      const { source, result } = await Promise.race(pulls.values());
      // The iterator that has just yielded is moved behind the others, so that a fast one cannot starve them.
      pulls.delete(source);
      if (result.done === true) {
        open.delete(source);
        continue;
      }
      yield result.value;
      pull(source);
    }
  } finally {
    abortRemaining();
    await Promise.allSettled([...open].map(async (source) => source.return?.()));
  }
}

interface Pulled<T> {
  readonly source: AsyncIterator<T>;
  readonly result: IteratorResult<T, unknown>;
}
