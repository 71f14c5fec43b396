import { createHash } from "node:crypto";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { draftEntry } from "../../src/assistant/ledger/ledger-entry.ts";
import type { Ledger, NewEntry, Receipt } from "../../src/assistant/ledger/port.ts";

export interface WrittenEntry extends NewEntry {
  readonly seq: number;
  /** The number of the entry's commit. All entries of one commit have the same number. */
  readonly commit: number;
}

/**
 * An in-memory ledger that commits like the real one: the entries of one turn of the event loop form one commit. In the
 * mode `down`, it rejects all entries; in the mode `torn`, it writes the entries but reports a failure.
 */
export class FakeLedger implements Ledger {
  readonly entries: WrittenEntry[] = [];
  mode: "ok" | "down" | "torn" = "ok";
  /** Called before an entry is accepted; an exception makes the append fail with that error. */
  onAppend: (entry: NewEntry) => void = () => {};
  /** Called after a commit, before the appends resolve. */
  onCommit: () => void = () => {};
  #waiting: {
    entry: NewEntry;
    resolve: (receipt: Receipt) => void;
    reject: (error: Error) => void;
  }[] = [];
  #commits = 0;

  async append(entry: NewEntry): Promise<Receipt> {
    this.onAppend(entry);
    // The real ledger would also reject this entry.
    draftEntry(entry, "2030-01-01T00:00:00.000Z");
    if (this.#waiting.length === 0) queueMicrotask(() => setImmediate(() => this.#commit()));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ entry: structuredClone(entry), resolve, reject });
    });
  }

  /** Adds the entries of a restart: each dispatch without a result gets the result "indeterminate". */
  restart(): void {
    const ended = new Set(this.entries.map(({ fields }) => fields["dispatch"]));
    this.#write({ name: "ledger.opened", fields: {} });
    for (const { name, seq } of this.entries.slice()) {
      if (name.endsWith(".dispatch") && !ended.has(seq))
        this.#write({ name: "ledger.indeterminate", fields: { dispatch: seq } });
    }
  }

  /**
   * Returns the names of the call's ledger entries without the prefix `agent.`. If an entry has a code, its name ends
   * with `:` and the code.
   */
  entryNamesOfCall(call: number): string[] {
    return this.entries
      .filter(({ fields }) => fields["call"] === call)
      .map(({ name, fields }) => {
        const code = fields["code"];
        return name.replace("agent.", "") + (typeof code === "string" ? `:${code}` : "");
      });
  }

  #commit(): void {
    const batch = this.#waiting.splice(0);
    this.#commits += 1;
    const { mode } = this;
    const receipts = mode === "down" ? [] : batch.map(({ entry }) => this.#write(entry));
    if (mode !== "down") this.onCommit();
    for (const [index, { resolve, reject }] of batch.entries()) {
      const receipt = receipts[index];
      if (receipt && mode === "ok") resolve(receipt);
      else reject(new AssistantError("ledger_unavailable", "the ledger cannot be written"));
    }
  }

  #write(entry: NewEntry): Receipt {
    const seq = this.entries.length;
    this.entries.push({ ...entry, seq, commit: this.#commits });
    return { seq, leaf: createHash("sha256").update(String(seq)).digest("hex") };
  }
}
