import { canonicalJson } from "../../base/canonical.ts";
import { messageOf } from "../../base/errors.ts";
import type { DraftEntry } from "./entry.ts";
import { LedgerFailure, ledgerFailure } from "./failure.ts";
import { type LedgerFiles, ledgerFiles } from "./files.ts";
import type { EntryName, EntryValue, Receipt } from "./port.ts";
import { freeReserve, takeReserve } from "./reserve.ts";
import { LedgerWriter } from "./writer.ts";
import { takeWriterLock, type WriterLock } from "./writer-lock.ts";
import type { FailedAnswer, WriterAnswer, WriterData, WriterRequest } from "./writer-protocol.ts";

/**
 * The writer's side of the protocol: which connection there is, what was acknowledged, and what a
 * failure means. After a failure nothing is accepted until `open` has succeeded.
 */
export class WriterRuntime {
  readonly #files: LedgerFiles;
  readonly #version: string;
  #lock: WriterLock | undefined;
  #writer: LedgerWriter | undefined;
  /** The last entry that somebody was told of: it must still be there after each open. */
  #acknowledged: Receipt | undefined;
  /** The entries of a start have been written. */
  #isStarted = false;
  /** That the disk is full has been recorded, and the reserve is given up. */
  #isFull = false;

  constructor({ stateDir, version }: WriterData) {
    this.#files = ledgerFiles(stateDir);
    this.#version = version;
  }

  handle(request: WriterRequest): WriterAnswer {
    try {
      return this.#perform(request);
    } catch (error) {
      this.#drop();
      return failedAnswer(error);
    }
  }

  /** To be called after each answer is out. Undefined: all is well. */
  rest(): FailedAnswer | undefined {
    try {
      this.#writer?.rest();
      return undefined;
    } catch (error) {
      this.#drop();
      return failedAnswer(error);
    }
  }

  #perform(request: WriterRequest): WriterAnswer {
    switch (request.type) {
      case "open":
        return this.#open(request.time, request.isFull);
      case "append":
        return { type: "append", receipts: this.#append(this.#opened(), request.drafts) };
      case "erase": {
        const writer = this.#opened();
        if (!writer.hasSealed(request.seq)) return { type: "erase", receipt: undefined };
        const receipt = writer.erase(request.seq, request.draft);
        this.#acknowledged = receipt;
        return { type: "erase", receipt };
      }
      case "save_checkpoint": {
        const writer = this.#opened();
        const note = writer.saveCheckpoint();
        writer.rest();
        return { type: "save_checkpoint", note, mustRest: writer.mustRest };
      }
      default:
        this.#close();
        return { type: "close" };
    }
  }

  #open(time: string, isFull: boolean): WriterAnswer {
    this.#lock ??= this.#takeLock();
    if (isFull) {
      this.#drop();
      freeReserve(this.#files.reserve);
    }
    const writer = (this.#writer ??= this.#connect());
    if (isFull && !this.#isFull) {
      this.#append(writer, [ownEntry("ledger.disk_full", time, {})]);
      this.#isFull = true;
    }
    try {
      takeReserve(this.#files.reserve);
      this.#isFull = false;
    } catch (error) {
      const failure = ledgerFailure(error);
      if (failure.kind !== "full" || !this.#isFull) throw failure;
      return { type: "open", size: writer.size, isFull: true };
    }
    if (!this.#isStarted) {
      this.#append(writer, this.#startEntries(writer, time));
      this.#isStarted = true;
    }
    writer.saveCheckpoint();
    return { type: "open", size: writer.size, isFull: false };
  }

  #takeLock(): WriterLock {
    LedgerWriter.makeFolder(this.#files);
    return takeWriterLock(this.#files.lock);
  }

  #connect(): LedgerWriter {
    const writer = LedgerWriter.open(this.#files);
    const known = this.#acknowledged;
    if (known !== undefined && writer.leafOf(known.seq) !== known.leaf) {
      writer.close();
      throw new LedgerFailure("rolled_back", `entry ${known.seq}, which was written, is gone`, {
        hint: "keep the ledger's files for an inquiry; restart the assistant to go on",
      });
    }
    return writer;
  }

  /** Who begins to write, and what the last one left open. */
  #startEntries(writer: LedgerWriter, time: string): DraftEntry[] {
    const fields: Record<string, EntryValue> = {
      key: writer.verifierKey,
      size: writer.size,
      version: this.#version,
    };
    if (!writer.hadCheckpoint) fields["checkpoint"] = "missing";
    return [
      ownEntry("ledger.opened", time, fields),
      ...writer
        .openDispatches()
        .map((dispatch) => ownEntry("ledger.indeterminate", time, { dispatch })),
    ];
  }

  #append(writer: LedgerWriter, drafts: readonly DraftEntry[]): Receipt[] {
    const receipts = writer.append(drafts);
    this.#acknowledged = receipts.at(-1) ?? this.#acknowledged;
    return receipts;
  }

  #opened(): LedgerWriter {
    if (!this.#writer) throw new LedgerFailure("io", "the ledger is not open");
    return this.#writer;
  }

  #close(): void {
    try {
      this.#writer?.saveCheckpoint();
    } finally {
      this.#drop();
      this.#lock?.release();
      this.#lock = undefined;
    }
  }

  /** The connection has failed, or is about to be replaced: what it says at its end does not count. */
  #drop(): void {
    const writer = this.#writer;
    this.#writer = undefined;
    try {
      writer?.close();
    } catch {
      // It is opened anew, and checked, before it is used.
    }
  }
}

function ownEntry(name: EntryName, time: string, fields: Record<string, EntryValue>): DraftEntry {
  const { dispatch } = fields;
  return {
    name,
    time,
    fields: canonicalJson(fields),
    sealed: undefined,
    dispatch: typeof dispatch === "number" ? dispatch : undefined,
  };
}

function failedAnswer(error: unknown): FailedAnswer {
  const { kind, message, hint, cause } = ledgerFailure(error);
  const root = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  return { type: "failed", kind, message, hint, detail: messageOf(root ?? error) };
}
