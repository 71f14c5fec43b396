import type { Logger } from "../../../base/logger.ts";
import type { CallJournal } from "./call-journal.ts";

/**
 * Number of ids reserved at a time. Each reservation is one flush to disk. A daemon that is killed wastes at most one
 * block of ids. While the journal cannot be written, the reserved ids are the only ones left, so the block must not be
 * too small.
 */
const BLOCK_SIZE = 1_024;

/**
 * Assigns increasing call ids. An id is never assigned twice, not even after a crash, because a block of ids is
 * reserved in the journal before its first id is used.
 */
export class CallIds {
  readonly #journal: Pick<CallJournal, "reserveIds" | "returnIds">;
  readonly #logger: Logger;
  #next = 0;
  #blockEnd = 0;

  constructor(options: {
    readonly journal: Pick<CallJournal, "reserveIds" | "returnIds">;
    readonly logger: Logger;
  }) {
    this.#journal = options.journal;
    this.#logger = options.logger;
    this.#reserve();
  }

  /**
   * Returns the next unused call id. If all reserved ids are used, reserves further ids in the journal, and throws the
   * journal's error if that fails.
   */
  next(): number {
    if (this.#next === this.#blockEnd) this.#reserve();
    const id = this.#next;
    this.#next += 1;
    return id;
  }

  /** Returns the unused ids to the journal, so that the ids of the next daemon follow without a gap. */
  release(): void {
    try {
      this.#journal.returnIds(this.#next, this.#blockEnd);
      this.#blockEnd = this.#next;
    } catch (err) {
      this.#logger.warn({ err }, "the journal could not take back unused call ids");
    }
  }

  #reserve(): void {
    this.#next = this.#journal.reserveIds(BLOCK_SIZE);
    this.#blockEnd = this.#next + BLOCK_SIZE;
    this.#logger.debug({ from: this.#next }, "a block of call ids was reserved");
  }
}
