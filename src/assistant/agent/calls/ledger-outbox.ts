import { backoffMs } from "../../../base/backoff.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { TaskGroup } from "../../../base/task-group.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Ledger, NewEntry } from "../../ledger/port.ts";
import type { CallJournal } from "./call-journal.ts";

const retryBackoff = { firstMs: 1_000, maxMs: 60_000 };

interface LedgerOutboxDependencies {
  readonly journal: CallJournal;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  readonly logger: Logger;
}

/**
 * The outbox for ledger entries about events that have already happened, or about cancelled calls. Entries that the
 * ledger rejected wait in the journal until it accepts them. An entry that must precede an effect never waits here:
 * while the ledger rejects it, the effect does not happen. If the daemon dies after the ledger's commit and before
 * the journal's commit, the ledger holds the entry twice.
 */
export class LedgerOutbox {
  readonly #dependencies: LedgerOutboxDependencies;
  /** Number of flushes scheduled since the outbox was last empty. */
  #retries = 0;
  #isFlushing = false;
  #cancelTimer: (() => void) | undefined;

  constructor(dependencies: LedgerOutboxDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Adds one entry to the outbox in its own transaction. If the journal fails, the entry is lost and an error is
   * logged.
   */
  enqueue(entry: NewEntry): void {
    const { journal, logger } = this.#dependencies;
    try {
      journal.enqueueEntry(entry);
      this.scheduleFlush();
    } catch (err) {
      logger.error({ err, entry: entry.name }, "a ledger entry is lost");
    }
  }

  /** Schedules a flush, which is repeated with a growing delay until the outbox is empty. */
  scheduleFlush(): void {
    const { tasks, clock } = this.#dependencies;
    if (this.#cancelTimer || this.#isFlushing || tasks.signal.aborted) return;
    this.#cancelTimer = clock.setTimer(backoffMs(this.#retries, retryBackoff), () => {
      this.#cancelTimer = undefined;
      tasks.run("flush the ledger outbox", () => this.flush());
    });
    this.#retries += 1;
  }

  /** Appends the queued entries in order and stops at the first entry that the ledger rejects. */
  async flush(): Promise<void> {
    const { journal, logger } = this.#dependencies;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    let isFlushed = false;
    try {
      for (let queued = journal.oldestQueuedEntry(); queued; queued = journal.oldestQueuedEntry()) {
        if (!(await this.#append(queued.entry))) break;
        journal.removeQueuedEntry(queued.id);
      }
      isFlushed = journal.oldestQueuedEntry() === undefined;
    } catch (err) {
      logger.warn({ err }, "the journal cannot read its queued ledger entries");
    } finally {
      this.#isFlushing = false;
    }
    if (isFlushed) this.#retries = 0;
    else this.scheduleFlush();
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  async #append(entry: NewEntry): Promise<boolean> {
    const { ledger, logger } = this.#dependencies;
    try {
      await ledger.append(entry);
      return true;
    } catch (err) {
      if (err instanceof AssistantError && err.code === "ledger_unavailable") return false;
      // The entry is dropped: the ledger would reject it at every retry, and the entries behind it would never be
      // appended.
      logger.error({ err, entry: entry.name }, "a ledger entry is lost");
      return true;
    }
  }
}
