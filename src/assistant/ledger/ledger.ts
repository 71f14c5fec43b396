import { type Clock, timestamp } from "../../base/clock.ts";
import { type Logger, silentLogger } from "../../base/logger.ts";
import { readPackageVersion } from "../../base/package-version.ts";
import { AssistantError } from "../assistant-error.ts";
import { AppendQueue } from "./append-queue.ts";
import { draftEntry } from "./ledger-entry.ts";
import { LedgerFailure, type LedgerFailureKind } from "./ledger-failure.ts";
import type { Ledger, NewEntry, Receipt } from "./port.ts";
import type { FailedAnswer, WriterAnswer, WriterRequest } from "./writer-protocol.ts";
import { WriterThread } from "./writer-thread.ts";

export interface LedgerOptions {
  /** The assistant's state directory, absolute; the ledger makes its own folder in it. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  /** Told in `ledger.opened`; default: that of the package. */
  readonly version?: string | undefined;
}

/** For /health, /metrics and the bus. */
export interface LedgerState {
  /** Entries are taken. */
  readonly ok: boolean;
  /** Entries that are on the disk, as far as known. */
  readonly size: number;
  /** The disk is full, and that is on record. */
  readonly full: boolean;
  /** Entries that wait for the commit that runs. */
  readonly queued: number;
  /** Commits since the start; entries over commits is how well they batch. */
  readonly commits: number;
  /** Why the ledger was last unavailable; kept when it is back. The message names no path. */
  readonly lastError:
    | { readonly kind: LedgerFailureKind; readonly message: string; readonly atMs: number }
    | undefined;
}

export interface OpenLedger extends Ledger, AsyncDisposable {
  readonly state: LedgerState;
  /**
   * Removes the sealed text of an entry, and appends `ledger.erased`; every proof still holds. Rejects
   * with AssistantError `not_found` where that entry has none, and `ledger_unavailable` as append does.
   */
  erase(seq: number): Promise<Receipt>;
  /** The newest checkpoint, which is then on the disk beside the database too. */
  checkpoint(): Promise<string>;
}

/** A checkpoint goes beside the database at most so often, and at the end: it costs two flushes. */
const CHECKPOINT_SAVE_DELAY_MS = 1_000;
/** How long an entry that nobody waits for stays without a commit to go with. */
const DEFERRED_COMMIT_DELAY_MS = 50;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;

/**
 * Opens the ledger of a state directory, and makes it where there is none. Rejects with AssistantError
 * `ledger_unavailable` where another process writes it. Anything else that keeps it from opening makes it a
 * ledger whose state is not ok and whose appends are refused; it tries again until it succeeds.
 */
export async function openLedger(options: LedgerOptions): Promise<OpenLedger> {
  const ledger = new ThreadedLedger(options);
  const failure = await ledger.start();
  if (failure?.kind !== "locked") return ledger;
  await ledger[Symbol.asyncDispose]();
  throw new AssistantError("ledger_unavailable", `${failure.message}: ${failure.hint}`);
}

type Phase = "opening" | "ok" | "down" | "closed";

class ThreadedLedger implements OpenLedger {
  readonly #options: LedgerOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #queue = new AppendQueue();
  #thread: WriterThread | undefined;
  #phase: Phase = "opening";
  #size = 0;
  #commits = 0;
  #isFull = false;
  /** A commit found no space: that is to be recorded before anything else is accepted. */
  #mustRecordFull = false;
  #lastError: LedgerState["lastError"];
  #retryMs = RETRY_MS_MIN;
  #retryAtMs = 0;
  #cancelRetry: (() => void) | undefined;
  #cancelSave: (() => void) | undefined;
  #cancelDeferredCommit: (() => void) | undefined;
  /** Everything that is asked of the thread, one after the other. */
  #lastTask: Promise<unknown> = Promise.resolve();
  #isCommitting = false;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#logger = options.logger ?? silentLogger;
  }

  get state(): LedgerState {
    return {
      ok: this.#phase === "ok",
      size: this.#size,
      full: this.#isFull,
      queued: this.#queue.length,
      commits: this.#commits,
      lastError: this.#lastError,
    };
  }

  start(): Promise<FailedAnswer | undefined> {
    return this.#runExclusive(() => this.#open());
  }

  async append(
    entry: NewEntry,
    { mayWait = false }: { readonly mayWait?: boolean } = {},
  ): Promise<Receipt> {
    const draft = draftEntry(entry, timestamp(this.#clock.now()));
    if (this.#phase !== "ok") throw this.#unavailableError();
    const receipt = this.#queue.add(draft);
    if (receipt === undefined)
      throw new AssistantError(
        "ledger_unavailable",
        "the ledger has too many entries to write; nothing was done",
        { retryAfterSeconds: 1 },
      );
    if (mayWait)
      this.#cancelDeferredCommit ??= this.#clock.setTimer(DEFERRED_COMMIT_DELAY_MS, () =>
        this.#scheduleCommit(),
      );
    else this.#scheduleCommit();
    return receipt;
  }

  async erase(seq: number): Promise<Receipt> {
    const entry: NewEntry = { name: "ledger.erased", fields: { seq } };
    const draft = draftEntry(entry, timestamp(this.#clock.now()));
    const answer = await this.#request({ type: "erase", seq, draft });
    if (answer.type !== "erase") throw this.#unavailableError();
    if (answer.receipt === undefined)
      throw new AssistantError("not_found", `entry ${seq} of the ledger has no sealed text`);
    this.#size = answer.receipt.seq + 1;
    this.#scheduleCheckpointSave();
    return answer.receipt;
  }

  async checkpoint(): Promise<string> {
    const answer = await this.#request({ type: "save_checkpoint" });
    if (answer.type !== "save_checkpoint") throw this.#unavailableError();
    return answer.note;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#phase === "closed") return;
    // What was handed over is written; what comes from now on is refused.
    const wasOk = this.#phase === "ok";
    this.#phase = "closed";
    this.#cancelRetry?.();
    this.#cancelSave?.();
    this.#cancelDeferredCommit?.();
    await this.#runExclusive(async () => {
      if (wasOk) await this.#commitQueued();
      this.#queue.rejectAll(this.#unavailableError());
      const answer = await this.#thread?.ask({ type: "close" });
      if (answer?.type === "failed") this.#logFailure(answer);
      await this.#thread?.terminate();
    });
  }

  #scheduleCommit(): void {
    this.#cancelDeferredCommit?.();
    this.#cancelDeferredCommit = undefined;
    if (this.#isCommitting) return;
    this.#isCommitting = true;
    // Whoever is in this same turn of the loop comes along.
    queueMicrotask(() => void this.#runExclusive(() => this.#commitQueued()));
  }

  /** Commits until nothing waits: what arrives while one runs is the next. */
  async #commitQueued(): Promise<void> {
    for (let batch = this.#queue.takeBatch(); batch; batch = this.#queue.takeBatch()) {
      const answer = await this.#ask({ type: "append", drafts: batch.drafts });
      if (answer.type !== "append") {
        batch.reject(this.#unavailableError());
        break;
      }
      this.#size = (answer.receipts.at(-1)?.seq ?? this.#size - 1) + 1;
      this.#commits += 1;
      batch.resolve(answer.receipts);
      this.#scheduleCheckpointSave();
    }
    this.#isCommitting = false;
  }

  async #request(request: WriterRequest): Promise<WriterAnswer> {
    return this.#runExclusive(async () => {
      if (this.#phase !== "ok") throw this.#unavailableError();
      return this.#ask(request);
    });
  }

  async #ask(request: WriterRequest): Promise<WriterAnswer> {
    if (!this.#thread) throw this.#unavailableError();
    const answer = await this.#thread.ask(request);
    if (answer.type === "failed") {
      this.#mustRecordFull ||= answer.kind === "full";
      this.#markDown(answer);
    }
    return answer;
  }

  async #open(): Promise<FailedAnswer | undefined> {
    if (this.#phase === "closed" || this.#phase === "ok") return undefined;
    if (!this.#thread || this.#thread.hasEnded) this.#thread = this.#startThread();
    const ask = (isFull: boolean) =>
      this.#thread?.ask({ type: "open", time: timestamp(this.#clock.now()), isFull });
    let answer = await ask(this.#mustRecordFull);
    if (answer?.type === "failed" && answer.kind === "full" && !this.#mustRecordFull) {
      this.#recordFailure(answer);
      answer = await ask(true);
    }
    if (answer?.type === "failed") {
      this.#markDown(answer);
      return answer;
    }
    if (answer?.type !== "open" || this.#isClosed()) return undefined;
    this.#size = answer.size;
    this.#isFull = answer.isFull;
    this.#mustRecordFull = false;
    if (answer.isFull) {
      this.#markDown({
        type: "failed",
        kind: "full",
        message: "the disk is full",
        hint: "free some space",
        detail: "the reserve cannot be taken back",
      });
      return undefined;
    }
    this.#phase = "ok";
    this.#retryMs = RETRY_MS_MIN;
    this.#logger.info({ size: this.#size }, "ledger is open");
    return undefined;
  }

  #startThread(): WriterThread {
    const data = {
      stateDir: this.#options.dir,
      version: this.#options.version ?? readPackageVersion(),
    };
    return new WriterThread(data, ({ failure }) => this.#markDown(failure));
  }

  /** Nothing is accepted from here on until it has been opened and checked anew. */
  #markDown(failure: FailedAnswer): void {
    this.#recordFailure(failure);
    if (this.#phase === "closed") return;
    this.#phase = "down";
    this.#queue.rejectAll(this.#unavailableError());
    this.#cancelRetry?.();
    const delayMs = this.#retryMs;
    this.#retryMs = Math.min(RETRY_MS_MAX, this.#retryMs * 2);
    this.#retryAtMs = this.#clock.now() + delayMs;
    this.#cancelRetry = this.#clock.setTimer(
      delayMs,
      () => void this.#runExclusive(() => this.#open()),
    );
  }

  #recordFailure(failure: FailedAnswer): void {
    const isNew =
      this.#phase !== "down" ||
      this.#lastError?.kind !== failure.kind ||
      this.#lastError.message !== failure.message;
    this.#lastError = { kind: failure.kind, message: failure.message, atMs: this.#clock.now() };
    // Each try would say the same.
    if (isNew) this.#logFailure(failure);
  }

  #logFailure({ kind, message, hint, detail }: FailedAnswer): void {
    this.#logger.error({ kind, reason: message, hint, detail }, "ledger is unavailable");
  }

  #unavailableError(): AssistantError {
    if (this.#phase === "closed" || this.#phase === "opening")
      return new AssistantError(
        "ledger_unavailable",
        `the ledger is ${this.#phase === "closed" ? "closed" : "not open yet"}; nothing was done`,
      );
    const { kind, message } = this.#lastError ?? { kind: "io", message: "an unknown fault" };
    const waitMs = Math.max(1_000, this.#retryAtMs - this.#clock.now());
    return new AssistantError(
      "ledger_unavailable",
      `the ledger cannot be written: ${message}; nothing was done`,
      {
        retryAfterSeconds: Math.ceil(waitMs / 1_000),
        cause: new LedgerFailure(kind, message),
      },
    );
  }

  #scheduleCheckpointSave(): void {
    if (this.#cancelSave || this.#phase !== "ok") return;
    this.#cancelSave = this.#clock.setTimer(CHECKPOINT_SAVE_DELAY_MS, () => {
      this.#cancelSave = undefined;
      void this.#runExclusive(async () => {
        if (this.#phase !== "ok") return;
        const answer = await this.#ask({ type: "save_checkpoint" });
        if (answer.type === "save_checkpoint" && answer.needsMaintenance)
          this.#scheduleCheckpointSave();
      });
    });
  }

  #isClosed(): boolean {
    return this.#phase === "closed";
  }

  #runExclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#lastTask.then(work);
    this.#lastTask = done.catch(() => undefined);
    return done;
  }
}
