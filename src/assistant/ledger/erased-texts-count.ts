import type { ErasedRun } from "./ledger-writer.ts";
import type { ErasedTexts } from "./port.ts";

/** Adds up the erased texts and the ledger entries of all runs of one erasure. */
export class ErasedTextsCount {
  total: ErasedTexts = { texts: 0, entries: 0, first: null, last: null };

  add({ run }: ErasedRun): void {
    if (!run) return;
    const { texts, entries, first } = this.total;
    this.total = {
      texts: texts + run.texts,
      entries: entries + 1,
      first: first ?? run.from,
      last: run.to,
    };
  }
}
