import type { ErasedRun } from "./ledger-writer.ts";
import type { ErasedTexts } from "./port.ts";

/** Adds up the runs that one erasure has erased. */
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
