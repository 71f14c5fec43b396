/**
 * Runs `start(0)` to `start(count - 1)`, at most `width` of them at a time, and yields what they yield
 * as it comes. A source is not pulled again before its item was taken. Leaving the loop, or a source
 * that fails, ends the others; `onLeave` is called first then, and has to make what is awaited settle.
 */
export async function* sideBySide<T>(
  count: number,
  width: number,
  start: (index: number) => AsyncIterable<T>,
  onLeave: () => void,
): AsyncGenerator<T, void, void> {
  if (count === 1) {
    yield* start(0);
    return;
  }
  const running = new Map<AsyncIterator<T>, Promise<Pulled<T>>>();
  const pull = (source: AsyncIterator<T>) => {
    const pulled = source.next().then((result) => ({ source, result }));
    // Its failure is met by the race below, or is of no interest any more.
    pulled.catch(() => {});
    running.set(source, pulled);
  };
  let next = 0;
  try {
    for (;;) {
      while (running.size < width && next < count) pull(start(next++)[Symbol.asyncIterator]());
      if (running.size === 0) return;
      const { source, result } = await Promise.race(running.values());
      // Behind the others, so that a fast one does not keep them from being heard.
      running.delete(source);
      if (result.done === true) continue;
      yield result.value;
      pull(source);
    }
  } finally {
    onLeave();
    await Promise.allSettled([...running.keys()].map(async (source) => source.return?.()));
  }
}

interface Pulled<T> {
  readonly source: AsyncIterator<T>;
  readonly result: IteratorResult<T, unknown>;
}
