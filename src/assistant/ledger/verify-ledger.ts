import type { SqliteDatabase } from "../../base/sqlite.ts";
import { type Checkpoint, faultDescriptions, openCheckpoint } from "./checkpoint.ts";
import { EntryScan, type LedgerProblem } from "./entry-scan.ts";
import type { NoteVerifier } from "./signed-note.ts";
import type { TextAccess } from "./text-access.ts";

/** The result of a verification; `whole` means that all entries are unchanged, and that all known checkpoints match. */
export type LedgerStatus = "whole" | "tampered" | "rolled_back" | "key";

export interface LedgerVerdict {
  readonly status: LedgerStatus;
  /** An explanation for the user. Empty if the ledger is whole. */
  readonly reason: string;
  /** The position of the first bad entry. Undefined unless the status is `tampered`. */
  readonly firstBad: number | undefined;
  /** At most 20 problems, ordered by entry. */
  readonly problems: readonly LedgerProblem[];
  readonly size: number;
  /** The number of entries whose sealed text is stored. */
  readonly sealed: number;
  /** The number of encrypted texts among these that were not checked, and the reason. */
  readonly unchecked: number;
  readonly uncheckedReason: string;
  /** The number of entries whose sealed text was erased. */
  readonly erased: number;
  readonly checkpoints: number;
  /** The root of the Merkle tree over all entries, in Base64. */
  readonly root: string;
  readonly origin: string;
}

const PROBLEMS_MAX = 20;

export interface VerifyLedgerOptions {
  readonly db: SqliteDatabase;
  readonly verifier: NoteVerifier;
  /**
   * The content of the checkpoint file; the caller must read it before the database. Undefined if the file does not
   * exist.
   */
  readonly savedCheckpoint: string | undefined;
  /** Checkpoints that the caller has kept elsewhere. */
  readonly trustedCheckpoints?: readonly string[];
  /**
   * Opens the keys of the encrypted texts. It is called within the transaction that reads the verified state of the
   * database.
   */
  readonly openTexts: () => TextAccess;
}

/** Verifies all hashes, commitments, signatures and roots in one snapshot. Throws the errors of SQLite. */
export function verifyLedger(options: VerifyLedgerOptions): LedgerVerdict {
  return options.db.transaction(() => verifySnapshot(options))();
}

function verifySnapshot({
  db,
  verifier,
  savedCheckpoint: saved,
  trustedCheckpoints: against = [],
  openTexts,
}: VerifyLedgerOptions): LedgerVerdict {
  const stored = readStoredCheckpoints(db, verifier);
  const texts = openTexts();
  const externalCheckpoints = [
    { what: "the checkpoint file", note: saved, isBeside: true },
    ...against.map((note) => ({ what: "the given checkpoint", note, isBeside: false })),
  ].map(({ what, note, isBeside }) => ({
    what,
    isBeside,
    opened: note === undefined ? undefined : openCheckpoint(note, verifier),
  }));

  const scan = new EntryScan(db, {
    sizes: [
      ...stored.valid.map(({ size }) => size),
      ...externalCheckpoints.flatMap(({ opened }) =>
        opened === undefined || opened.fault !== undefined ? [] : [opened.size],
      ),
    ],
    signedSize: stored.valid.at(-1)?.size ?? 0,
    opener: texts.opener,
  });
  scan.run();
  // If only some checkpoints are signed with another key, the ledger was tampered with. If all are, the caller has
  // given the wrong key. A young ledger stores only one checkpoint, so an external checkpoint that matches the stored
  // entries also proves that the key is right.
  const isOwn =
    stored.valid.length > 0 ||
    externalCheckpoints.some(
      ({ opened }) =>
        opened !== undefined &&
        opened.fault === undefined &&
        scan.roots.get(opened.size)?.equals(opened.root) === true,
    );
  const foreign = isOwn ? [] : stored.foreign.map(({ message }) => message);
  const primary = stored.problems.concat(scan.problems, isOwn ? stored.foreign : []);
  const problems =
    primary.length + foreign.length > 0 ? primary : findCheckpointProblems(scan, stored.valid);

  const rollbacks: string[] = [];
  for (const { what, opened, isBeside } of externalCheckpoints) {
    if (opened === undefined) {
      if (scan.size > 0)
        rollbacks.push(`${what} is missing, so an older copy of the ledger would not be noticed`);
    } else if (opened.fault === "unknown" && !(isBeside && stored.valid.length > 0))
      foreign.push(`${what} ${faultDescriptions.unknown}`);
    else if (opened.fault !== undefined)
      problems.push({ seq: 0, message: `${what} ${faultDescriptions[opened.fault]}` });
    else if (opened.size > scan.size)
      rollbacks.push(
        `rolled back: ${what} covers ${opened.size} entries, but the ledger has ${scan.size}`,
      );
    else if (scan.roots.get(opened.size)?.equals(opened.root) !== true)
      rollbacks.push(
        `forked: ${what} was signed for other entries than the first ${opened.size} of this ledger`,
      );
  }

  const uncheckedReason = scan.unchecked > 0 && !texts.opener ? texts.why : "";
  // Without the key, the log itself can be whole, but its texts are lost, so the verdict must report the loss.
  if (uncheckedReason !== "" && !texts.opener && texts.isLost)
    foreign.push(`${scan.unchecked} sealed texts cannot be decrypted: ${uncheckedReason}`);
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
    unchecked: scan.unchecked,
    uncheckedReason,
    checkpoints: stored.valid.length,
    root: scan.root().toString("base64"),
    origin: verifier.name,
  };
}

const bySeq = (a: LedgerProblem, b: LedgerProblem): number => a.seq - b.seq;

/**
 * Returns the status that explains the findings. Checkpoints of another key give the status `key` only if there is no
 * other problem, because the key alone then explains why their signatures are not valid.
 */
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
  readonly problems: readonly LedgerProblem[];
  /** The problems of checkpoints that are signed with other keys. */
  readonly foreign: readonly LedgerProblem[];
}

function readStoredCheckpoints(db: SqliteDatabase, verifier: NoteVerifier): StoredCheckpoints {
  const valid: Checkpoint[] = [];
  const problems: LedgerProblem[] = [];
  const foreign: LedgerProblem[] = [];
  const rows = db.prepare<[], [number, string]>("SELECT size, note FROM checkpoint ORDER BY size");
  for (const [size, note] of rows.raw().iterate()) {
    const opened = openCheckpoint(note, verifier);
    const name = `the checkpoint of ${size} entries`;
    if (opened.fault !== undefined) {
      const list = opened.fault === "unknown" ? foreign : problems;
      list.push({ seq: lastSeqOf(size), message: `${name} ${faultDescriptions[opened.fault]}` });
    } else if (opened.size === size) valid.push(opened);
    else
      problems.push({
        seq: lastSeqOf(Math.min(size, opened.size)),
        message: `${name} is signed for ${opened.size} entries`,
      });
  }
  return { valid, problems, foreign };
}

const lastSeqOf = (size: number): number => Math.max(0, size - 1);

/** Compares the entries, which have no other problem, with the signed checkpoints. */
function findCheckpointProblems(scan: EntryScan, valid: readonly Checkpoint[]): LedgerProblem[] {
  const newest = valid.at(-1)?.size ?? 0;
  if (scan.size > newest)
    return [{ seq: newest, message: `no signed checkpoint covers entry ${newest}` }];
  let whole = 0;
  for (const { size, root } of valid) {
    if (scan.roots.get(size)?.equals(root) !== true)
      return [
        {
          seq: whole,
          message: `entries ${whole} to ${size - 1} do not match the signed checkpoint`,
        },
      ];
    whole = size;
  }
  return [];
}
