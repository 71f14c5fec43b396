import type { DraftEntry } from "./ledger-entry.ts";
import type { LedgerFailureKind } from "./ledger-failure.ts";
import type { Receipt } from "./port.ts";

/** What is said between the ledger and its writer's thread: one question at a time, one answer each. */
export type WriterRequest =
  /** Opens, or opens anew. `isFull`: the reserve is to be given up, and that the disk is full recorded. */
  | { readonly type: "open"; readonly time: string; readonly isFull: boolean }
  | { readonly type: "append"; readonly drafts: readonly DraftEntry[] }
  | { readonly type: "erase"; readonly seq: number; readonly draft: DraftEntry }
  | { readonly type: "save_checkpoint" }
  | { readonly type: "close" };

export type WriterAnswer =
  | { readonly type: "open"; readonly size: number; readonly isFull: boolean }
  | { readonly type: "append"; readonly receipts: readonly Receipt[] }
  /** Undefined: there is no sealed text at that entry. */
  | { readonly type: "erase"; readonly receipt: Receipt | undefined }
  /** `mustRest`: a reader keeps an erased text in the write-ahead log; it is to be asked again soon. */
  | { readonly type: "save_checkpoint"; readonly note: string; readonly needsMaintenance: boolean }
  | { readonly type: "close" }
  | FailedAnswer;

export interface FailedAnswer {
  readonly type: "failed";
  readonly kind: LedgerFailureKind;
  readonly message: string;
  readonly hint: string | undefined;
  /** What the system or the library said, for the log alone: it may name paths. */
  readonly detail: string;
}

/** What the writer does of its own accord, after an answer, failed. */
export interface WriterFailedEvent {
  readonly type: "writer_failed";
  readonly failure: FailedAnswer;
}

export interface WriterData {
  readonly stateDir: string;
  readonly version: string;
}
