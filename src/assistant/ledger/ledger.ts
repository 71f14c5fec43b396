import { type BackoffOptions, backoffMs } from "../../base/backoff.ts";
import { type Clock, timestamp } from "../../base/clock.ts";
import { type Logger, silentLogger } from "../../base/logger.ts";
import { readPackageVersion } from "../../base/package-version.ts";
import { AssistantError } from "../assistant-error.ts";
import { AppendQueue } from "./append-queue.ts";
import { ErasedTextsCount } from "./erased-texts-count.ts";
import { draftEntry } from "./ledger-entry.ts";
import { LedgerFailure, type LedgerFailureKind } from "./ledger-failure.ts";
import type { ErasedTexts, Ledger, NewEntry, Receipt, TextEraser } from "./port.ts";
import type { TextKeyPair } from "./text-cipher.ts";
import type { TextKeyStore } from "./text-protection.ts";
import type { TextKeys } from "./text-store.ts";
import type { FailedAnswer, WriterAnswer, WriterRequest } from "./writer-protocol.ts";
import { WriterThread } from "./writer-thread.ts";

export interface LedgerOptions {
  /** The absolute path of the assistant's state directory, in which the ledger creates its own folder. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  /** Berth's version, recorded in the entry `ledger.opened`. Default: the version of the package. */
  readonly version?: string | undefined;
}

/** The state of the ledger that /health, /metrics and the bus report. */
export interface LedgerState {
  /** True while the ledger accepts entries. */
  readonly ok: boolean;
  /** The number of entries on the disk, as last reported by the writer. */
  readonly size: number;
  /** True if the disk is full and the ledger has recorded this. */
  readonly full: boolean;
  /** The number of entries that wait for a commit. */
  readonly queued: number;
  /** The number of commits since the start. Entries per commit show how well batching works. */
  readonly commits: number;
  /**
   * The reason why the ledger was last unavailable, kept after a recovery; undefined if it was always available. The
   * message names no path.
   */
  readonly lastError:
    | { readonly kind: LedgerFailureKind; readonly message: string; readonly atMs: number }
    | undefined;
}

export interface OpenLedger extends Ledger, TextEraser, TextKeyStore, AsyncDisposable {
  readonly state: LedgerState;
  /** Writes the newest checkpoint to its file and returns it. */
  checkpoint(): Promise<string>;
}

/**
 * The shortest time between two writes of the checkpoint file, because each write costs two flushes. The file is also
 * written when the ledger is closed.
 */
const CHECKPOINT_SAVE_DELAY_MS = 1_000;
/** The longest time that an entry with `mayWait` waits to be part of another entry's commit. */
const DEFERRED_COMMIT_DELAY_MS = 50;
const retryBackoff: BackoffOptions = { firstMs: 100, maxMs: 5_000 };

/**
 * Opens the ledger of a state directory, or creates one. Rejects with AssistantError `ledger_unavailable` if another
 * process writes it. After any other failure it resolves with a ledger that refuses appends, has a state that is not
 * ok, and retries until it is open.
 */
export async function openLedger(options: LedgerOptions): Promise<OpenLedger> {
  const ledger = new ThreadedLedger(options);
  const failure = await ledger.start();
  if (failure?.kind !== "locked") return ledger;
  await ledger[Symbol.asyncDispose]();
  throw new AssistantError("ledger_unavailable", `${failure.message}: ${failure.hint}`);
}

/** Each run of texts is erased in a commit of its own, so the runs before a failure stay erased. */
function toInterruptedErasure(error: unknown, texts: number): unknown {
  if (texts === 0 || !(error instanceof AssistantError)) return error;
  return new AssistantError(
    error.code,
    `the ledger became unavailable after ${texts} texts were erased; repeat the request to erase the other texts`,
    { cause: error },
  );
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
  /**
   * True after a commit failed because the disk is full. The ledger must record the full disk before it accepts entries
   * again.
   */
  #mustRecordFull = false;
  #lastError: LedgerState["lastError"];
  /**
   * The number of failures since the ledger was last open, which determines the back-off of the attempts to open it.
   */
  #failures = 0;
  #retryAtMs = 0;
  #cancelRetry: (() => void) | undefined;
  #cancelSave: (() => void) | undefined;
  #cancelDeferredCommit: (() => void) | undefined;
  /** The last request in the queue of requests to the writer's thread. */
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

  async eraseBefore(beforeMs: number, signal?: AbortSignal): Promise<ErasedTexts> {
    const before = timestamp(beforeMs);
    const erased = new ErasedTextsCount();
    for (let after: number | undefined = -1; after !== undefined; ) {
      signal?.throwIfAborted();
      const time = timestamp(this.#clock.now());
      const answer: WriterAnswer = await this.#request({
        type: "erase",
        before,
        after,
        time,
      }).catch((error: unknown) => {
        throw toInterruptedErasure(error, erased.total.texts);
      });
      if (answer.type !== "erase") throw this.#unavailableError();
      erased.add(answer);
      after = answer.next;
      if (!answer.receipt) continue;
      this.#size = answer.receipt.seq + 1;
      this.#scheduleCheckpointSave();
    }
    return erased.total;
  }

  async readTextKeys(): Promise<TextKeys & { readonly ledgerId: string }> {
    const answer = await this.#request({ type: "read_text_keys" });
    if (answer.type !== "read_text_keys") throw this.#unavailableError();
    return answer;
  }

  async saveTextKeys(pair: TextKeyPair): Promise<boolean> {
    const answer = await this.#request({ type: "save_text_keys", pair });
    if (answer.type !== "save_text_keys") throw this.#unavailableError();
    return answer.isSaved;
  }

  async encryptTexts(signal: AbortSignal): Promise<number> {
    for (let total = 0; ; ) {
      signal.throwIfAborted();
      const answer: WriterAnswer = await this.#request({ type: "encrypt_texts" });
      if (answer.type !== "encrypt_texts") throw this.#unavailableError();
      if (answer.texts === 0) return total;
      total += answer.texts;
      // A reader may keep the readable texts in the write-ahead log, which is truncated with the next checkpoint.
      this.#scheduleCheckpointSave();
    }
  }

  async checkpoint(): Promise<string> {
    const answer = await this.#request({ type: "save_checkpoint" });
    if (answer.type !== "save_checkpoint") throw this.#unavailableError();
    return answer.note;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#phase === "closed") return;
    // Queued entries are still written, but new entries are refused.
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
    // The delay lets entries that are appended in the same turn of the event loop join this commit.
    queueMicrotask(() => void this.#runExclusive(() => this.#commitQueued()));
  }

  /** Commits until the queue is empty. Entries that arrive during a commit are in the next one. */
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
        detail: "the disk reserve cannot be allocated again",
      });
      return undefined;
    }
    this.#phase = "ok";
    this.#failures = 0;
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

  /** Refuses new entries until the ledger has been opened and checked again. */
  #markDown(failure: FailedAnswer): void {
    this.#recordFailure(failure);
    if (this.#phase === "closed") return;
    this.#phase = "down";
    this.#queue.rejectAll(this.#unavailableError());
    this.#cancelRetry?.();
    const delayMs = backoffMs(this.#failures, retryBackoff);
    this.#failures += 1;
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
    // A retry that fails for the same reason is not logged again.
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
    const { kind, message } = this.#lastError ?? { kind: "io", message: "an unknown error" };
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
