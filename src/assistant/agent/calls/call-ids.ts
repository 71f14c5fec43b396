import type { Logger } from "../../../base/logger.ts";
import type { CallJournal } from "./call-journal.ts";

/** Reserved at a time: one flush for so many calls, and so many numbers lost when the daemon dies. */
const BLOCK_SIZE = 1_024;

/**
 * Numbers of calls: they grow, and none is ever given twice, not even by a daemon that died. A block is
 * reserved in the journal before its first number is given.
 */
export class CallIds {
  readonly #journal: Pick<CallJournal, "reserveIds">;
  readonly #logger: Logger;
  #next = 0;
  #blockEnd = 0;

  constructor(options: {
    readonly journal: Pick<CallJournal, "reserveIds">;
    readonly logger: Logger;
  }) {
    this.#journal = options.journal;
    this.#logger = options.logger;
    this.#reserve();
  }

  /** Throws what the journal throws, once the block is used up and no other can be had. */
  next(): number {
    if (this.#next === this.#blockEnd) this.#reserve();
    const id = this.#next;
    this.#next += 1;
    return id;
  }

  #reserve(): void {
    this.#next = this.#journal.reserveIds(BLOCK_SIZE);
    this.#blockEnd = this.#next + BLOCK_SIZE;
    this.#logger.debug({ from: this.#next }, "numbers of calls reserved");
  }
}
