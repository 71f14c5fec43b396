/**
 * The append-only log of actions. Callers record an action here before they perform it. The port does not determine how
 * entries are stored.
 */
export interface Ledger {
  /**
   * Resolves when the entry is on the disk: COMMIT has returned, with synchronous=FULL. Rejects with AssistantError
   * `ledger_unavailable`; then the caller must not perform the action. Entries that arrive during a commit are written
   * by the next one. An append cannot be aborted.
   *
   * `mayWait` means that no action depends on the entry. Such an entry is written, in its order, by the next commit for
   * another entry, or by a separate commit 50 ms later. `mayWait` is meant for results of calls: their dispatch entry
   * is in the ledger already, and shows the call even if a crash loses the result.
   */
  append(entry: NewEntry, options?: { readonly mayWait?: boolean }): Promise<Receipt>;
}

/** Erases sealed texts. The entries and their commitments stay, so all proofs stay valid. */
export interface TextEraser {
  /**
   * Erases all sealed texts of entries that are older than this time (Unix epoch). Each run of at most 1,024 texts is
   * erased in one commit with an entry `ledger.erased`, and other entries are written between the runs. Rejects with
   * AssistantError `ledger_unavailable`; runs that were erased before stay erased, and a repetition erases the others.
   * Rejects with the signal's reason between two runs.
   */
  eraseBefore(beforeMs: number, signal?: AbortSignal): Promise<ErasedTexts>;
}

export interface ErasedTexts {
  readonly texts: number;
  /** The number of entries `ledger.erased` that record the erasure. */
  readonly entries: number;
  /** The first and the last entry whose text was erased; null if none was. */
  readonly first: number | null;
  readonly last: number | null;
}

/** JSON whose numbers are safe integers, so that each value has exactly one canonical text. */
export type EntryValue =
  | null
  | boolean
  | number
  | string
  | readonly EntryValue[]
  | { readonly [name: string]: EntryValue };

export interface NewEntry {
  readonly name: EntryName;
  /**
   * Values that everyone who has the ledger can read: model, class, counts, digests, ids; never a prompt or an
   * argument. The fields of a result (`*.result`, `*.late`) have `dispatch`, the `seq` of its `*.dispatch` entry. An
   * entry with more than about 64 KiB of fields is refused.
   */
  readonly fields: { readonly [name: string]: EntryValue };
  /**
   * Prompts, arguments and answers, as one value. The leaf has a salted commitment to this value. The value itself is
   * in another table and can be erased without invalidating proofs.
   */
  readonly sealed?: EntryValue | undefined;
}

export interface Receipt {
  /** The position of the entry in the ledger, counted from 0 without gaps. */
  readonly seq: number;
  /** The entry's leaf hash (RFC 6962) as 64 hex digits. */
  readonly leaf: string;
}

/** The names of all kinds of ledger entries. */
export const entryNames = [
  "inference.generate",
  "inference.embed",
  "agent.call.requested",
  "agent.call.parked",
  "agent.call.confirmed",
  "agent.call.declined",
  "agent.call.expired",
  "agent.call.dispatch",
  "agent.call.result",
  "agent.call.late",
  "agent.undo.dispatch",
  "agent.undo.result",
  "agent.undo.late",
  "agent.tool.approve",
  "agent.confirmer.register",
  "context.search",
  "context.search.hybrid",
  "context.search.scoped",
  "memory.set",
  "memory.wipe",
  "egress.send",
  "remote.provider.add",
  "remote.provider.remove",
  "remote.key.set",
  "remote.key.clear",
  "remote.consent",
  "remote.login",
  /**
   * The following names belong to entries about the ledger itself. `ledger.indeterminate` records that the result of a
   * request or call with a `*.dispatch` entry is unknown.
   */
  "ledger.opened",
  "ledger.disk_full",
  "ledger.indeterminate",
  "ledger.erased",
] as const;

export type EntryName = (typeof entryNames)[number];
