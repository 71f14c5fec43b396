import type { Clock } from "./clock.ts";

/**
 * Yields `accepted` as soon as the first event is there or `withinMs` have passed, and then yields the events. At the
 * end, also when the consumer stops early, it aborts `controller`, which must make a pending read of `events` settle.
 */
export async function* withAcceptedFirst<T>(
  accepted: T,
  events: AsyncGenerator<T, void, void>,
  clock: Clock,
  withinMs: number,
  controller: { abort(): void },
): AsyncGenerator<T, void, void> {
  const event = events.next();
  event.catch(() => {});
  let cancel: (() => void) | undefined;
  try {
    await Promise.race([
      event,
      new Promise<void>((resolve) => {
        cancel = clock.setTimer(withinMs, resolve);
      }),
    ]);
    yield accepted;
    const next = await event;
    if (next.done === true) return;
    yield next.value;
    yield* events;
  } finally {
    cancel?.();
    controller.abort();
    await events.return();
  }
}
