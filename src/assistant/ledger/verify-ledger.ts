import type { SqliteDatabase } from "../../base/sqlite.ts";
import { type Checkpoint, faultDescriptions, openCheckpoint } from "./checkpoint.ts";
import { EntryScan, type LedgerProblem } from "./entry-scan.ts";
import type { NoteVerifier } from "./signed-note.ts";

/** whole: every entry is the one that was written, and what was seen before is still there. */
export type LedgerStatus = "whole" | "tampered" | "rolled_back" | "key";

export interface LedgerVerdict {
  readonly status: LedgerStatus;
  /** In words, for a person; "" where it is whole. */
  readonly reason: string;
  /** The first bad entry; undefined unless tampered. */
  readonly firstBad: number | undefined;
  /** At most PROBLEMS_MAX, in the order of entries. */
  readonly problems: readonly LedgerProblem[];
  readonly size: number;
  /** Entries whose sealed text is there, and was checked; and those whose text was erased. */
  readonly sealed: number;
  readonly erased: number;
  readonly checkpoints: number;
  /** Root over all entries, base64. */
  readonly root: string;
  readonly origin: string;
}

const PROBLEMS_MAX = 20;

export interface VerifyLedgerOptions {
  readonly db: SqliteDatabase;
  readonly verifier: NoteVerifier;
  /** The checkpoint beside the database; undefined: there is none. Read before the database was. */
  readonly savedCheckpoint: string | undefined;
  /** Checkpoints that somebody kept elsewhere. */
  readonly trustedCheckpoints?: readonly string[];
}

/** Reads everything, in one snapshot: each hash, commitment, signature and root. Throws what SQLite throws. */
export function verifyLedger(options: VerifyLedgerOptions): LedgerVerdict {
  return options.db.transaction(() => verifySnapshot(options))();
}

function verifySnapshot({
  db,
  verifier,
  savedCheckpoint: saved,
  trustedCheckpoints: against = [],
}: VerifyLedgerOptions): LedgerVerdict {
  const problems: LedgerProblem[] = [];
  const stored = readStoredCheckpoints(db, verifier, problems);
  const externalCheckpoints = [
    { what: "the checkpoint beside the database", note: saved, isBeside: true },
    ...against.map((note) => ({ what: "the checkpoint that was given", note, isBeside: false })),
  ].map(({ what, note, isBeside }) => ({
    what,
    isBeside,
    opened: note === undefined ? undefined : openCheckpoint(note, verifier),
  }));

  const scan = new EntryScan(db, [
    ...stored.valid.map(({ size }) => size),
    ...externalCheckpoints.flatMap(({ opened }) =>
      opened === undefined || opened.fault !== undefined ? [] : [opened.size],
    ),
  ]);
  scan.run();
  problems.push(...scan.problems);
  // One checkpoint of another key among our own is a change; all of them are the wrong key. A ledger that is
  // young has one in its table, so the one beside it counts, where it is of these very entries.
  const isOwn =
    stored.valid.length > 0 ||
    externalCheckpoints.some(
      ({ opened }) =>
        opened !== undefined &&
        opened.fault === undefined &&
        scan.roots.get(opened.size)?.equals(opened.root) === true,
    );
  const foreign = isOwn ? [] : stored.foreign.map(({ message }) => message);
  if (isOwn) problems.push(...stored.foreign);
  problems.push(
    ...findCheckpointProblems(scan, stored.valid, problems.length + foreign.length > 0),
  );

  const rollbacks: string[] = [];
  for (const { what, opened, isBeside } of externalCheckpoints) {
    if (opened === undefined) {
      if (scan.size > 0)
        rollbacks.push(`${what} is missing, so an older copy would not be noticed`);
    } else if (opened.fault === "unknown" && !(isBeside && stored.valid.length > 0))
      foreign.push(`${what} ${faultDescriptions.unknown}`);
    else if (opened.fault !== undefined)
      problems.push({ seq: 0, message: `${what} ${faultDescriptions[opened.fault]}` });
    else if (opened.size > scan.size)
      rollbacks.push(
        `rolled back: ${what} is of ${opened.size} entries, and ${scan.size} are there`,
      );
    else if (scan.roots.get(opened.size)?.equals(opened.root) !== true)
      rollbacks.push(`forked: ${what} has another history of the first ${opened.size} entries`);
  }

  const found = [...problems.toSorted(bySeq), ...scan.secondaryProblems.toSorted(bySeq)];
  const status = determineStatus(found, foreign, rollbacks);
  return {
    status,
    reason: determineReason(status, found, foreign, rollbacks),
    firstBad: status === "tampered" ? found[0]?.seq : undefined,
    problems: status === "tampered" ? found.slice(0, PROBLEMS_MAX) : [],
    size: scan.size,
    sealed: scan.sealed,
    erased: scan.erased,
    checkpoints: stored.valid.length,
    root: scan.root().toString("base64"),
    origin: verifier.name,
  };
}

const bySeq = (a: LedgerProblem, b: LedgerProblem): number => a.seq - b.seq;

/** A wrong key explains bad signatures; only then does a contradiction count as one. */
function determineStatus(
  problems: readonly LedgerProblem[],
  foreign: readonly string[],
  rollbacks: readonly string[],
): LedgerStatus {
  if (foreign.length > 0 && problems.length === 0) return "key";
  if (problems.length > 0) return "tampered";
  return rollbacks.length > 0 ? "rolled_back" : "whole";
}

function determineReason(
  status: LedgerStatus,
  problems: readonly LedgerProblem[],
  foreign: readonly string[],
  rollbacks: readonly string[],
): string {
  if (status === "tampered") return problems[0]?.message ?? "";
  return (status === "key" ? foreign[0] : rollbacks[0]) ?? "";
}

interface StoredCheckpoints {
  readonly valid: readonly Checkpoint[];
  /** Checkpoints that this key has not signed, and nobody claims it has. */
  readonly foreign: readonly LedgerProblem[];
}

function readStoredCheckpoints(
  db: SqliteDatabase,
  verifier: NoteVerifier,
  problems: LedgerProblem[],
): StoredCheckpoints {
  const good: Checkpoint[] = [];
  const strangers: LedgerProblem[] = [];
  const rows = db.prepare<[], [number, string]>("SELECT size, note FROM checkpoint ORDER BY size");
  for (const [size, note] of rows.raw().iterate()) {
    const opened = openCheckpoint(note, verifier);
    const name = `the checkpoint of ${size} entries`;
    if (opened.fault !== undefined) {
      const list = opened.fault === "unknown" ? strangers : problems;
      list.push({ seq: lastSeqOf(size), message: `${name} ${faultDescriptions[opened.fault]}` });
    } else if (opened.size === size) good.push(opened);
    else
      problems.push({
        seq: lastSeqOf(Math.min(size, opened.size)),
        message: `${name} says that it is of ${opened.size}`,
      });
  }
  return { valid: good, foreign: strangers };
}

const lastSeqOf = (size: number): number => Math.max(0, size - 1);

/** What signed heads say of the entries. Where entries are bad, no root fits, which says nothing new. */
function findCheckpointProblems(
  scan: EntryScan,
  valid: readonly Checkpoint[],
  hasProblems: boolean,
): LedgerProblem[] {
  const newest = valid.at(-1)?.size ?? 0;
  if (scan.size < newest)
    return [
      { seq: scan.size, message: `entry ${scan.size} is missing, with all up to ${newest - 1}` },
    ];
  if (hasProblems) return [];
  if (scan.size > newest)
    return [{ seq: newest, message: `entry ${newest} is under no signed checkpoint` }];
  let whole = 0;
  for (const { size, root } of valid) {
    if (scan.roots.get(size)?.equals(root) !== true)
      return [
        {
          seq: whole,
          message: `entries ${whole} to ${size - 1} are not those that were signed`,
        },
      ];
    whole = size;
  }
  return [];
}
