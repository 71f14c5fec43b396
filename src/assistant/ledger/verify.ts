import type { SqliteDatabase } from "../../base/sqlite.ts";
import { type Checkpoint, faultWords, openCheckpoint } from "./checkpoint.ts";
import { EntryScan, type Problem } from "./entry-scan.ts";
import type { NoteVerifier } from "./note.ts";

/** whole: every entry is the one that was written, and what was seen before is still there. */
export type LedgerStatus = "whole" | "tampered" | "rolled_back" | "key";

export interface Verdict {
  readonly status: LedgerStatus;
  /** In words, for a person; "" where it is whole. */
  readonly reason: string;
  /** The first bad entry; undefined unless tampered. */
  readonly firstBad: number | undefined;
  /** At most PROBLEMS_MAX, in the order of entries. */
  readonly problems: readonly Problem[];
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

export interface VerifyOptions {
  readonly db: SqliteDatabase;
  readonly verifier: NoteVerifier;
  /** The checkpoint beside the database; undefined: there is none. Read before the database was. */
  readonly saved: string | undefined;
  /** Checkpoints that somebody kept elsewhere. */
  readonly against?: readonly string[];
}

/** Reads everything, in one snapshot: each hash, commitment, signature and root. Throws what SQLite throws. */
export function verifyLedger(options: VerifyOptions): Verdict {
  return options.db.transaction(() => verifySnapshot(options))();
}

function verifySnapshot({ db, verifier, saved, against = [] }: VerifyOptions): Verdict {
  const problems: Problem[] = [];
  const heads = readHeads(db, verifier, problems);
  const outside = [
    { what: "the checkpoint beside the database", note: saved, isBeside: true },
    ...against.map((note) => ({ what: "the checkpoint that was given", note, isBeside: false })),
  ].map(({ what, note, isBeside }) => ({
    what,
    isBeside,
    opened: note === undefined ? undefined : openCheckpoint(note, verifier),
  }));

  const scan = new EntryScan(db, [
    ...heads.good.map(({ size }) => size),
    ...outside.flatMap(({ opened }) =>
      opened === undefined || opened.fault !== undefined ? [] : [opened.size],
    ),
  ]);
  scan.run();
  problems.push(...scan.problems);
  // One checkpoint of another key among our own is a change; all of them are the wrong key. A ledger that is
  // young has one in its table, so the one beside it counts, where it is of these very entries.
  const isOwn =
    heads.good.length > 0 ||
    outside.some(
      ({ opened }) =>
        opened !== undefined &&
        opened.fault === undefined &&
        scan.roots.get(opened.size)?.equals(opened.root) === true,
    );
  const strangers = isOwn ? [] : heads.strangers.map(({ message }) => message);
  if (isOwn) problems.push(...heads.strangers);
  problems.push(...headProblems(scan, heads.good, problems.length + strangers.length > 0));

  const older: string[] = [];
  for (const { what, opened, isBeside } of outside) {
    if (opened === undefined) {
      if (scan.size > 0) older.push(`${what} is missing, so an older copy would not be noticed`);
    } else if (opened.fault === "unknown" && !(isBeside && heads.good.length > 0))
      strangers.push(`${what} ${faultWords.unknown}`);
    else if (opened.fault !== undefined)
      problems.push({ seq: 0, message: `${what} ${faultWords[opened.fault]}` });
    else if (opened.size > scan.size)
      older.push(`rolled back: ${what} is of ${opened.size} entries, and ${scan.size} are there`);
    else if (scan.roots.get(opened.size)?.equals(opened.root) !== true)
      older.push(`forked: ${what} has another history of the first ${opened.size} entries`);
  }

  const found = [...problems.toSorted(bySeq), ...scan.consequences.toSorted(bySeq)];
  const status = statusOf(found, strangers, older);
  return {
    status,
    reason: reasonOf(status, found, strangers, older),
    firstBad: status === "tampered" ? found[0]?.seq : undefined,
    problems: status === "tampered" ? found.slice(0, PROBLEMS_MAX) : [],
    size: scan.size,
    sealed: scan.sealed,
    erased: scan.erased,
    checkpoints: heads.good.length,
    root: scan.root().toString("base64"),
    origin: verifier.name,
  };
}

const bySeq = (a: Problem, b: Problem): number => a.seq - b.seq;

/** A wrong key explains bad signatures; only then does a contradiction count as one. */
function statusOf(
  problems: readonly Problem[],
  strangers: readonly string[],
  older: readonly string[],
): LedgerStatus {
  if (strangers.length > 0 && problems.length === 0) return "key";
  if (problems.length > 0) return "tampered";
  return older.length > 0 ? "rolled_back" : "whole";
}

function reasonOf(
  status: LedgerStatus,
  problems: readonly Problem[],
  strangers: readonly string[],
  older: readonly string[],
): string {
  if (status === "tampered") return problems[0]?.message ?? "";
  return (status === "key" ? strangers[0] : older[0]) ?? "";
}

interface Heads {
  readonly good: readonly Checkpoint[];
  /** Checkpoints that this key has not signed, and nobody claims it has. */
  readonly strangers: readonly Problem[];
}

function readHeads(db: SqliteDatabase, verifier: NoteVerifier, problems: Problem[]): Heads {
  const good: Checkpoint[] = [];
  const strangers: Problem[] = [];
  const rows = db.prepare<[], [number, string]>("SELECT size, note FROM checkpoint ORDER BY size");
  for (const [size, note] of rows.raw().iterate()) {
    const opened = openCheckpoint(note, verifier);
    const name = `the checkpoint of ${size} entries`;
    if (opened.fault !== undefined) {
      const list = opened.fault === "unknown" ? strangers : problems;
      list.push({ seq: lastOf(size), message: `${name} ${faultWords[opened.fault]}` });
    } else if (opened.size === size) good.push(opened);
    else
      problems.push({
        seq: lastOf(Math.min(size, opened.size)),
        message: `${name} says that it is of ${opened.size}`,
      });
  }
  return { good, strangers };
}

const lastOf = (size: number): number => Math.max(0, size - 1);

/** What signed heads say of the entries. Where entries are bad, no root fits, which says nothing new. */
function headProblems(
  scan: EntryScan,
  good: readonly Checkpoint[],
  hasProblems: boolean,
): Problem[] {
  const newest = good.at(-1)?.size ?? 0;
  if (scan.size < newest)
    return [
      { seq: scan.size, message: `entry ${scan.size} is missing, with all up to ${newest - 1}` },
    ];
  if (hasProblems) return [];
  if (scan.size > newest)
    return [{ seq: newest, message: `entry ${newest} is under no signed checkpoint` }];
  let whole = 0;
  for (const { size, root } of good) {
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
