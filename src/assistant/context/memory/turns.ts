import { AssistantError } from "../../errors.ts";

/** More of one app's calls than these may not wait: somebody sends faster than a disk can write. */
const WAITING_MAX = 256;

/** One after the other for each app, so that what is read is what was written before; apps side by side. */
export class Turns {
  readonly #queues = new Map<string, { waiting: number; last: Promise<unknown> }>();

  /** Comes to what `work` comes to. Rejects with `busy` where too many wait. */
  async take<T>(app: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(app) ?? { waiting: 0, last: Promise.resolve() };
    if (queue.waiting >= WAITING_MAX)
      throw new AssistantError(
        "busy",
        `${WAITING_MAX} calls for the memory of ${app} wait already; try again when some have been answered`,
        { retryAfterSeconds: 1 },
      );
    this.#queues.set(app, queue);
    queue.waiting += 1;
    const done = queue.last.then(work).finally(() => {
      queue.waiting -= 1;
      if (queue.waiting === 0) this.#queues.delete(app);
    });
    queue.last = done.catch(() => undefined);
    return done;
  }

  async settled(): Promise<void> {
    while (this.#queues.size > 0)
      await Promise.all([...this.#queues.values()].map(({ last }) => last));
  }
}
