import type { DraftEntry } from "./ledger-entry.ts";
import type { LedgerFailureKind } from "./ledger-failure.ts";
import type { ErasedRun, OldTextsRequest } from "./ledger-writer.ts";
import type { Receipt } from "./port.ts";
import type { TextKeyPair } from "./text-cipher.ts";
import type { TextKeys } from "./text-store.ts";

/**
 * A message to the writer's thread. Each message gets one answer, and the next message is sent only after that answer.
 */
export type WriterRequest =
  /**
   * Opens the ledger, or opens it again after a failure. If `isFull` is true, the writer must release the disk reserve
   * and record that the disk is full.
   */
  | { readonly type: "open"; readonly time: string; readonly isFull: boolean }
  | { readonly type: "append"; readonly drafts: readonly DraftEntry[] }
  | ({ readonly type: "erase" } & OldTextsRequest)
  | { readonly type: "read_text_keys" }
  | { readonly type: "save_text_keys"; readonly pair: TextKeyPair }
  /** Encrypts some of the texts that are not encrypted yet. The sender repeats the request until the answer is 0. */
  | { readonly type: "encrypt_texts" }
  | { readonly type: "save_checkpoint" }
  | { readonly type: "close" };

export type WriterAnswer =
  | { readonly type: "open"; readonly size: number; readonly isFull: boolean }
  | { readonly type: "append"; readonly receipts: readonly Receipt[] }
  | ({ readonly type: "erase" } & ErasedRun)
  /**
   * If `needsMaintenance` is true, a reader still keeps an erased text in the write-ahead log, so the request must be
   * repeated soon.
   */
  | { readonly type: "save_checkpoint"; readonly note: string; readonly needsMaintenance: boolean }
  | ({ readonly type: "read_text_keys"; readonly ledgerId: string } & TextKeys)
  | { readonly type: "save_text_keys"; readonly isSaved: boolean }
  | { readonly type: "encrypt_texts"; readonly texts: number }
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

/**
 * Reports that the maintenance of the database, which the writer's thread runs after it has answered a request, has
 * failed.
 */
export interface WriterFailedEvent {
  readonly type: "writer_failed";
  readonly failure: FailedAnswer;
}

export interface WriterData {
  readonly stateDir: string;
  readonly version: string;
}
