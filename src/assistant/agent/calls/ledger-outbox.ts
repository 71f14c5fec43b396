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
 * Entries about what has happened already, or has been given up, which the ledger did not take: they wait in
 * the journal until it does. An entry that stands before an act never comes here: without it there is no act.
 * Where the daemon dies between the ledger's commit and the journal's, an entry stands twice.
 */
export class LedgerOutbox {
  readonly #dependencies: LedgerOutboxDependencies;
  /** Flushes scheduled since the outbox was last empty. */
  #retries = 0;
  #isFlushing = false;
  #cancelTimer: (() => void) | undefined;

  constructor(dependencies: LedgerOutboxDependencies) {
    this.#dependencies = dependencies;
  }

  /** For an entry that no other transaction of the journal writes down. */
  enqueue(entry: NewEntry): void {
    try {
      this.#dependencies.journal.enqueueEntry(entry);
      this.scheduleFlush();
    } catch (err) {
      this.#dependencies.logger.error({ err, entry: entry.name }, "an entry of the ledger is lost");
    }
  }

  /** Soon, and again and again until the ledger has taken them. */
  scheduleFlush(): void {
    if (this.#cancelTimer || this.#isFlushing || this.#dependencies.tasks.signal.aborted) return;
    this.#cancelTimer = this.#dependencies.clock.setTimer(backoffMs(this.#retries, retryBackoff), () => {
      this.#cancelTimer = undefined;
      this.#dependencies.tasks.run("flush the ledger outbox", () => this.flush());
    });
    this.#retries += 1;
  }

  /** In their order, until one is refused. */
  async flush(): Promise<void> {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    let isFlushed = false;
    try {
      for (
        let queued = this.#dependencies.journal.oldestQueuedEntry();
        queued;
        queued = this.#dependencies.journal.oldestQueuedEntry()
      ) {
        if (!(await this.#append(queued.entry))) break;
        this.#dependencies.journal.removeQueuedEntry(queued.id);
      }
      isFlushed = this.#dependencies.journal.oldestQueuedEntry() === undefined;
    } catch (err) {
      this.#dependencies.logger.warn(
        { err },
        "the journal does not say which entries the ledger is owed",
      );
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
    try {
      await this.#dependencies.ledger.append(entry);
      return true;
    } catch (err) {
      if (err instanceof AssistantError && err.code === "ledger_unavailable") return false;
      // It would be refused for ever, and keep the others waiting.
      this.#dependencies.logger.error({ err, entry: entry.name }, "an entry of the ledger is lost");
      return true;
    }
  }
}
