import type { TailEntry } from "../../src/assistant/ledger/offline-ledger.ts";
import type { Effect } from "./effects-app.ts";

export interface AuditInput {
  /** All entries of the ledger, in order. */
  readonly entries: readonly TailEntry[];
  readonly effects: readonly Effect[];
  /** The leaf hashes of the ledger entries that callers have learned from answers, by entry number. */
  readonly acknowledged: ReadonlyMap<number, string>;
  /** If false, dispatches without a result are allowed, because calls may still be in progress. */
  readonly isAtRest: boolean;
}

/**
 * Maps the argument `mark` of each call to the call's number. The ledger entry of the call's request contains the mark
 * and the number.
 */
export function mapCallsByMark(entries: readonly TailEntry[]): Map<string, number> {
  const calls = new Map<string, number>();
  for (const { body, plain } of entries) {
    if (body.name !== "agent.call.requested" || plain === undefined) continue;
    const sealed: { args: string } = JSON.parse(plain);
    const args: { mark?: string } = JSON.parse(sealed.args);
    if (args.mark !== undefined) calls.set(args.mark, Number(body.fields["call"]));
  }
  return calls;
}

/** Returns the `agent.` entries of one call. */
export function findCallEntries(entries: readonly TailEntry[], call: number): readonly TailEntry[] {
  return entries.filter(
    ({ body }) => body.name.startsWith("agent.") && body.fields["call"] === call,
  );
}

/** Returns the entry numbers of the dispatches whose outcome the ledger records as unknown. */
export function findIndeterminate(entries: readonly TailEntry[]): ReadonlySet<number> {
  const named = entries.filter(({ body }) => body.name === "ledger.indeterminate");
  return new Set(named.map(({ body }) => Number(body.fields["dispatch"])));
}

/** Checks the invariants that hold after any fault, and returns one line for each violation. */
export function findProblems(audited: AuditInput): readonly string[] {
  return [
    ...findLostEntries(audited),
    ...findUnrecordedEffects(audited),
    ...findOpenDispatches(audited),
  ];
}

function findLostEntries({ entries, acknowledged }: AuditInput): string[] {
  const stored = new Map(entries.map(({ body, leaf }) => [body.seq, leaf]));
  return [...acknowledged]
    .filter(([seq, leaf]) => stored.get(seq) !== leaf)
    .map(([seq]) => `entry ${seq} was acknowledged, and is not there`);
}

/**
 * Returns a line for each effect without an earlier dispatch entry, and for each call with more than one effect. A
 * compensation may be retried, so it may have as many effects as dispatches.
 */
function findUnrecordedEffects({ entries, effects }: AuditInput): string[] {
  const calls = mapCallsByMark(entries);
  const problems: string[] = [];
  const times = new Map<string, number>();
  for (const { tool, mark, dispatched } of effects) {
    const call = calls.get(mark);
    const kind = tool === "unmake" ? "undo" : "call";
    const act = `${kind} ${call}`;
    if (call === undefined) problems.push(`${tool} ${mark} is in no entry`);
    else if (!dispatched.includes(act))
      problems.push(`${tool} ${mark} (${act}) happened before its dispatch`);
    const time = (times.get(act) ?? 0) + 1;
    times.set(act, time);
    const entered = entries.filter(
      ({ body }) => body.name === `agent.${kind}.dispatch` && body.fields["call"] === call,
    ).length;
    if (time > (kind === "undo" ? entered : 1)) problems.push(`${act} happened ${time} times`);
  }
  return problems;
}

function findOpenDispatches({ entries, isAtRest }: AuditInput): string[] {
  if (!isAtRest) return [];
  const unknown = findIndeterminate(entries);
  const ended = new Set(
    entries
      .filter(({ body }) => /^agent\.(call|undo)\.result$/.test(body.name))
      .map(({ body }) => Number(body.fields["dispatch"] ?? -1)),
  );
  return entries
    .filter(({ body }) => /^agent\.(call|undo)\.dispatch$/.test(body.name))
    .filter(({ body }) => !ended.has(body.seq) && !unknown.has(body.seq))
    .map(({ body }) => `the dispatch ${body.seq} has no end`);
}
