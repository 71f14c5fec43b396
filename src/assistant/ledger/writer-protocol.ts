import type { DraftEntry } from "./ledger-entry.ts";
import type { LedgerFailureKind } from "./ledger-failure.ts";
import type { Receipt } from "./port.ts";

/** A message to the writer's thread. Each has one answer, and the next is sent after that answer. */
export type WriterRequest =
  /** Opens the ledger, or opens it again. `isFull`: the reserve must be released and the full disk recorded. */
  | { readonly type: "open"; readonly time: string; readonly isFull: boolean }
  | { readonly type: "append"; readonly drafts: readonly DraftEntry[] }
  | { readonly type: "erase"; readonly seq: number; readonly draft: DraftEntry }
  | { readonly type: "save_checkpoint" }
  | { readonly type: "close" };

export type WriterAnswer =
  | { readonly type: "open"; readonly size: number; readonly isFull: boolean }
  | { readonly type: "append"; readonly receipts: readonly Receipt[] }
  /** Undefined: the entry has no sealed text. */
  | { readonly type: "erase"; readonly receipt: Receipt | undefined }
  /** `needsMaintenance`: a reader keeps an erased text in the write-ahead log; the request must be repeated soon. */
  | { readonly type: "save_checkpoint"; readonly note: string; readonly needsMaintenance: boolean }
  | { readonly type: "close" }
  | FailedAnswer;

export interface FailedAnswer {
  readonly type: "failed";
  readonly kind: LedgerFailureKind;
  readonly message: string;
  readonly hint: string | undefined;
  /** The error of the system or of SQLite, for the log only: it may name paths. */
  readonly detail: string;
}

/** The writer's maintenance after an answer has failed. */
export interface WriterFailedEvent {
  readonly type: "writer_failed";
  readonly failure: FailedAnswer;
}

export interface WriterData {
  readonly stateDir: string;
  readonly version: string;
}
