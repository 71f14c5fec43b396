interface WriteEntry {
  data: Buffer;
  fds: readonly number[];
  readonly done: () => void;
  next: WriteEntry | undefined;
}

/**
 * The maximum number of consecutive calls of `send`, each with at most 64 KiB, before other work runs. A peer that
 * reads as fast as this side writes would otherwise block the event loop.
 */
const SENDS_MAX = 64;

/**
 * The messages that a transport has to write, in the order in which they are sent. The queue is a linked list, because
 * a million messages may wait for a peer that does not read.
 */
export class WriteQueue {
  #first: WriteEntry | undefined;
  #last: WriteEntry | undefined;
  #pendingBytes = 0;

  get isEmpty(): boolean {
    return this.#first === undefined;
  }

  /** Number of bytes that the system has not accepted yet. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  add(data: Buffer, fds: readonly number[], done: () => void): void {
    const entry: WriteEntry = { data, fds, done, next: undefined };
    if (this.#last) this.#last.next = entry;
    else this.#first = entry;
    this.#last = entry;
    this.#pendingBytes += data.length;
  }

  /**
   * Writes until the queue is empty, `send` returns an error, or other work must run. Returns the error, or 0. An
   * entry's descriptors are passed to `send` until it has accepted a byte of the entry, and not again.
   */
  flush(send: (data: Buffer, fds: readonly number[]) => number): number {
    for (let sends = 0; this.#first && sends < SENDS_MAX; sends++) {
      const entry = this.#first;
      const sent = entry.data.length === 0 ? 0 : send(entry.data, entry.fds);
      if (sent < 0) return sent;
      this.#pendingBytes -= sent;
      entry.data = entry.data.subarray(sent);
      if (sent > 0) entry.fds = [];
      if (entry.data.length === 0) this.#settle(entry);
    }
    return 0;
  }

  /** Empties the queue without writing its entries, and calls `done` of each entry. */
  clear(): void {
    this.#pendingBytes = 0;
    while (this.#first) this.#settle(this.#first);
  }

  #settle(entry: WriteEntry): void {
    this.#first = entry.next;
    if (!this.#first) this.#last = undefined;
    entry.done();
  }
}
