import { existsSync } from "node:fs";
import { timestamp } from "../../base/clock.ts";
import { ErasedTextsCount } from "./erased-texts-count.ts";
import { LedgerFailure, toLedgerFailure } from "./ledger-failure.ts";
import { resolveLedgerPaths } from "./ledger-paths.ts";
import { type ErasedRun, LedgerWriter } from "./ledger-writer.ts";
import type { ErasedTexts } from "./port.ts";
import { acquireWriterLock } from "./writer-lock.ts";

/**
 * Erases the sealed texts that are older than `beforeMs` in the ledger of a state directory. Returns undefined if its
 * daemon runs, which alone may write the ledger then. An interrupted erasure leaves a valid ledger, and a repetition
 * erases the other texts. Throws LedgerFailure.
 */
export function eraseOffline(
  stateDir: string,
  beforeMs: number,
  nowMs: number,
): ErasedTexts | undefined {
  const files = resolveLedgerPaths(stateDir);
  try {
    if (!existsSync(files.db))
      throw new LedgerFailure("io", "there is no ledger in this data directory", {
        hint: "name the assistant's data directory with --data-dir",
      });
    const lock = acquireWriterLock(files.lock);
    try {
      return eraseAll(LedgerWriter.open(files), timestamp(beforeMs), timestamp(nowMs));
    } finally {
      lock.release();
    }
  } catch (error) {
    const failure = toLedgerFailure(error);
    if (failure.kind === "locked") return undefined;
    throw failure;
  }
}

function eraseAll(writer: LedgerWriter, before: string, time: string): ErasedTexts {
  try {
    // Only the daemon may continue without the checkpoint file, because it records this in its entry `ledger.opened`.
    if (!writer.hadCheckpoint)
      throw new LedgerFailure("rolled_back", "the checkpoint file of the ledger is missing", {
        hint: "restore it, or start the assistant, which records that it is missing",
      });
    const erased = new ErasedTextsCount();
    for (let after: number | undefined = -1; after !== undefined; ) {
      const run: ErasedRun = writer.eraseOldTexts({ before, after, time });
      erased.add(run);
      after = run.next;
    }
    writer.saveCheckpoint();
    writer.finishErasure();
    return erased.total;
  } finally {
    writer.close();
  }
}
