import type { DraftEntry } from "./ledger-entry.ts";
import type { Receipt } from "./port.ts";

/** Limits of one commit. With larger commits, each entry would wait longer for its receipt. */
const BATCH_ENTRIES_MAX = 1_024;
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** Limits of all appends that wait in the queue. An append that would exceed them is refused. */
const QUEUE_ENTRIES_MAX = 16_384;
const QUEUE_BYTES_MAX = 64 * 1024 * 1024;

interface QueuedEntry {
  readonly draft: DraftEntry;
  readonly bytes: number;
  readonly resolve: (receipt: Receipt) => void;
  readonly reject: (error: Error) => void;
}

export interface Batch {
  readonly drafts: readonly DraftEntry[];
  /** Resolves the appends of this batch. The receipts must be in the order of `drafts`. */
  resolve(receipts: readonly Receipt[]): void;
  reject(error: Error): void;
}

/** A FIFO queue of the entries that wait for a commit. */
export class AppendQueue {
  #entries: QueuedEntry[] = [];
  #bytes = 0;

  get length(): number {
    return this.#entries.length;
  }

  /** Adds an entry; the promise settles when its batch does. Returns undefined if the queue is full. */
  add(draft: DraftEntry): Promise<Receipt> | undefined {
    const bytes = draft.fields.length + (draft.sealed?.length ?? 0);
    if (this.#entries.length >= QUEUE_ENTRIES_MAX) return undefined;
    if (this.#bytes > 0 && this.#bytes + bytes > QUEUE_BYTES_MAX) return undefined;
    this.#bytes += bytes;
    return new Promise((resolve, reject) => {
      this.#entries.push({ draft, bytes, resolve, reject });
    });
  }

  /**
   * Removes and returns the entries of the next commit: at least one, and at most as many as the limits of a commit
   * allow. Returns undefined if the queue is empty.
   */
  takeBatch(): Batch | undefined {
    let [count, bytes] = [0, 0];
    for (const item of this.#entries) {
      if (count === BATCH_ENTRIES_MAX) break;
      if (count > 0 && bytes + item.bytes > BATCH_BYTES_MAX) break;
      count += 1;
      bytes += item.bytes;
    }
    if (count === 0) return undefined;
    const taken = this.#entries.splice(0, count);
    this.#bytes -= bytes;
    return {
      drafts: taken.map(({ draft }) => draft),
      resolve(receipts) {
        for (const [index, { resolve, reject }] of taken.entries()) {
          const receipt = receipts[index];
          if (receipt) resolve(receipt);
          else reject(new Error("the writer returned fewer receipts than it was given entries"));
        }
      },
      reject(error) {
        for (const item of taken) item.reject(error);
      },
    };
  }

  rejectAll(error: Error): void {
    this.#bytes = 0;
    for (const item of this.#entries.splice(0)) item.reject(error);
  }
}
