import { canonicalJson } from "../../base/canonical-json.ts";
import { getErrorMessage } from "../../base/errors.ts";
import { allocateReserve, releaseReserve } from "./disk-reserve.ts";
import type { DraftEntry } from "./ledger-entry.ts";
import { LedgerFailure, toLedgerFailure } from "./ledger-failure.ts";
import { type LedgerPaths, resolveLedgerPaths } from "./ledger-paths.ts";
import { LedgerWriter } from "./ledger-writer.ts";
import type { EntryName, EntryValue, Receipt } from "./port.ts";
import { acquireWriterLock, type WriterLock } from "./writer-lock.ts";
import type { FailedAnswer, WriterAnswer, WriterData, WriterRequest } from "./writer-protocol.ts";

/**
 * Handles the requests to the writer's thread: opens and closes the connection, and remembers the last acknowledged
 * entry. After a failure all requests fail until `open` has succeeded.
 */
export class WriterRuntime {
  readonly #files: LedgerPaths;
  readonly #version: string;
  #lock: WriterLock | undefined;
  #writer: LedgerWriter | undefined;
  /** The last acknowledged entry. Each time the ledger is opened, this entry must still exist. */
  #acknowledged: Receipt | undefined;
  /** True once `ledger.opened` has been written. */
  #isStarted = false;
  /** True if the full disk has been recorded and the disk reserve has been released. */
  #isFull = false;

  constructor({ stateDir, version }: WriterData) {
    this.#files = resolveLedgerPaths(stateDir);
    this.#version = version;
  }

  handle(request: WriterRequest): WriterAnswer {
    try {
      return this.#perform(request);
    } catch (error) {
      this.#closeWriter();
      return toFailedAnswer(error);
    }
  }

  /**
   * Maintains the write-ahead log; call this after each answer has been sent. Returns the failure, or undefined after
   * success.
   */
  runMaintenance(): FailedAnswer | undefined {
    try {
      this.#writer?.runMaintenance();
      return undefined;
    } catch (error) {
      this.#closeWriter();
      return toFailedAnswer(error);
    }
  }

  #perform(request: WriterRequest): WriterAnswer {
    switch (request.type) {
      case "open":
        return this.#open(request.time, request.isFull);
      case "append":
        return { type: "append", receipts: this.#append(this.#requireWriter(), request.drafts) };
      case "erase": {
        const erased = this.#requireWriter().eraseOldTexts(request);
        this.#acknowledged = erased.receipt ?? this.#acknowledged;
        return { type: "erase", ...erased };
      }
      case "read_text_keys":
        return { type: "read_text_keys", ...this.#requireWriter().readTextKeys() };
      case "save_text_keys":
        return {
          type: "save_text_keys",
          isSaved: this.#requireWriter().saveTextKeys(request.pair),
        };
      case "encrypt_texts":
        return { type: "encrypt_texts", texts: this.#requireWriter().encryptSomeTexts() };
      case "save_checkpoint": {
        const writer = this.#requireWriter();
        const note = writer.saveCheckpoint();
        writer.runMaintenance();
        return { type: "save_checkpoint", note, needsMaintenance: writer.needsMaintenance };
      }
      default:
        this.#close();
        return { type: "close" };
    }
  }

  #open(time: string, isFull: boolean): WriterAnswer {
    this.#lock ??= this.#acquireLock();
    if (isFull) {
      this.#closeWriter();
      releaseReserve(this.#files.reserve);
    }
    const writer = (this.#writer ??= this.#openWriter());
    if (isFull && !this.#isFull) {
      this.#append(writer, [createInternalEntry("ledger.disk_full", time, {})]);
      this.#isFull = true;
    }
    try {
      allocateReserve(this.#files.reserve);
      this.#isFull = false;
    } catch (error) {
      const failure = toLedgerFailure(error);
      if (failure.kind !== "full" || !this.#isFull) throw failure;
      return { type: "open", size: writer.size, isFull: true };
    }
    if (!this.#isStarted) {
      this.#append(writer, this.#createStartEntries(writer, time));
      this.#isStarted = true;
    }
    writer.saveCheckpoint();
    return { type: "open", size: writer.size, isFull: false };
  }

  #acquireLock(): WriterLock {
    LedgerWriter.makeFolder(this.#files);
    return acquireWriterLock(this.#files.lock);
  }

  #openWriter(): LedgerWriter {
    const writer = LedgerWriter.open(this.#files);
    const known = this.#acknowledged;
    if (known !== undefined && writer.readLeaf(known.seq) !== known.leaf) {
      writer.close();
      throw new LedgerFailure("rolled_back", `entry ${known.seq}, which was written, is missing`, {
        hint: "keep the ledger's files for an investigation; restart the assistant to continue",
      });
    }
    return writer;
  }

  /**
   * Creates the entries that record a start of the daemon: `ledger.opened`, and one `ledger.indeterminate` for each
   * `*.dispatch` entry that an earlier daemon left without a result.
   */
  #createStartEntries(writer: LedgerWriter, time: string): DraftEntry[] {
    const fields: Record<string, EntryValue> = {
      key: writer.verifierKey,
      size: writer.size,
      version: this.#version,
    };
    if (!writer.hadCheckpoint) fields["checkpoint"] = "missing";
    return [
      createInternalEntry("ledger.opened", time, fields),
      ...writer
        .listOpenDispatches()
        .map((dispatch) => createInternalEntry("ledger.indeterminate", time, { dispatch })),
    ];
  }

  #append(writer: LedgerWriter, drafts: readonly DraftEntry[]): Receipt[] {
    const receipts = writer.append(drafts);
    this.#acknowledged = receipts.at(-1) ?? this.#acknowledged;
    return receipts;
  }

  #requireWriter(): LedgerWriter {
    if (!this.#writer) throw new LedgerFailure("io", "the ledger is not open");
    return this.#writer;
  }

  #close(): void {
    try {
      this.#writer?.saveCheckpoint();
    } finally {
      this.#closeWriter();
      this.#lock?.release();
      this.#lock = undefined;
    }
  }

  /** Closes the connection and ignores errors, because the connection has failed or is not needed any more. */
  #closeWriter(): void {
    const writer = this.#writer;
    this.#writer = undefined;
    try {
      writer?.close();
    } catch {
      // The error is ignored, because the ledger is opened again and checked before it is used.
    }
  }
}

function createInternalEntry(
  name: EntryName,
  time: string,
  fields: Record<string, EntryValue>,
): DraftEntry {
  const { dispatch } = fields;
  return {
    name,
    time,
    fields: canonicalJson(fields),
    sealed: undefined,
    dispatch: typeof dispatch === "number" ? dispatch : undefined,
  };
}

function toFailedAnswer(error: unknown): FailedAnswer {
  const { kind, message, hint, cause } = toLedgerFailure(error);
  const root = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  return { type: "failed", kind, message, hint, detail: getErrorMessage(root ?? error) };
}
