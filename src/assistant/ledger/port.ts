/**
 * The ledger as the rooms that act see it: append first, act after. What is behind it (one file, a
 * Merkle tree, proofs) is nobody's business but the ledger's own.
 */
export interface Ledger {
  /**
   * Resolves when the entry is on the disk: COMMIT has returned, with synchronous=FULL. Rejects with
   * AssistantError `ledger_unavailable`; then the action must not happen. Entries that arrive while a
   * commit runs are the next one. Not to be aborted: an entry that was handed over is written.
   *
   * `mayWait`: nothing depends on it, so it comes with the next commit that somebody waits for, in its
   * place, or with one of its own 50 ms later. That is for what has happened already: a result whose call
   * has its dispatch in the ledger, which tells of it also where a crash takes the result.
   */
  append(entry: NewEntry, options?: { readonly mayWait?: boolean }): Promise<Receipt>;
}

/** What an entry may hold: JSON without numbers that are not safe integers, so that canonical text is one. */
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
   * Told in the open, in the leaf: model, class, counts, digests, ids. Never a prompt or an argument.
   * A result (`*.result`) has `dispatch`, the seq of the `*.dispatch` entry that it ends. About 64 KiB at most.
   */
  readonly fields: { readonly [name: string]: EntryValue };
  /**
   * Kept as a salted commitment in the leaf; the plain value stands in a side table and can be erased
   * while every proof still holds. Prompts, arguments, texts. Undefined: there is none.
   */
  readonly sealed?: EntryValue | undefined;
}

export interface Receipt {
  /** 0 for the first entry; without gaps. */
  readonly seq: number;
  /** RFC 6962 leaf hash, 64 hex digits. */
  readonly leaf: string;
}

/** Every entry's name; a reader of the ledger needs no other list. */
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
  "agent.undo.dispatch",
  "agent.undo.result",
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
  /** Of the ledger itself: opened, a full disk, a result that never came, a sealed text that was erased. */
  "ledger.opened",
  "ledger.disk_full",
  "ledger.indeterminate",
  "ledger.erased",
] as const;

export type EntryName = (typeof entryNames)[number];
