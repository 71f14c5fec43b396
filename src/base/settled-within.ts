import type { Clock } from "./clock.ts";

/**
 * `first`, as soon as there is an event behind it or `withinMs` are over, and then the events. `leaving` is
 * aborted when nobody wants more of them, and has to make what is awaited settle.
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
