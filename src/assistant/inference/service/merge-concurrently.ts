/**
 * Runs `start(0)` to `start(count - 1)`, at most `width` of them at a time, and yields what they yield
 * as it comes. A source is not pulled again before its item was taken. Leaving the loop, or a source
 * that fails, ends the others; `onLeave` is called first then, and has to make what is awaited settle.
 */
export async function* mergeConcurrently<T>(
  count: number,
  concurrency: number,
  start: (index: number) => AsyncIterable<T>,
  abortRemaining: () => void,
): AsyncGenerator<T, void, void> {
  if (count === 1) {
    yield* start(0);
    return;
  }
  const open = new Set<AsyncIterator<T>>();
  /** Those that are being waited for; the one whose item is out is not among them. */
  const pulls = new Map<AsyncIterator<T>, Promise<Pulled<T>>>();
  const pull = (source: AsyncIterator<T>) => {
    const pulled = source.next().then((result) => ({ source, result }));
    // Its failure is met by the race below, or is of no interest any more.
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
      // It comes back behind the others, so that a fast one does not keep them from being heard.
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
