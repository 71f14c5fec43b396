import type { TailEntry } from "../../src/assistant/ledger/offline-ledger.ts";
import type { Effect } from "./effects-app.ts";

export interface AuditInput {
  /** All of them, in their order. */
  readonly entries: readonly TailEntry[];
  readonly effects: readonly Effect[];
  /** What answers named: leaf by number. */
  readonly acknowledged: ReadonlyMap<number, string>;
  /** False while calls are under way, whose results are still to come. */
  readonly isAtRest: boolean;
}

/** Numbers of calls by the mark in their arguments, as the ledger has them. */
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

/** What the ledger has of one call, by the names of its entries without `agent.`. */
export function findCallEntries(entries: readonly TailEntry[], call: number): readonly TailEntry[] {
  return entries.filter(
    ({ body }) => body.name.startsWith("agent.") && body.fields["call"] === call,
  );
}

/** Dispatches whose end is that nobody knows how they ended. */
export function findIndeterminate(entries: readonly TailEntry[]): ReadonlySet<number> {
  const named = entries.filter(({ body }) => body.name === "ledger.indeterminate");
  return new Set(named.map(({ body }) => Number(body.fields["dispatch"])));
}

/** What must hold whatever happened, and does not: one line each. */
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

/** Each effect of a call has its dispatch before it and is the only one; a compensation may be tried again. */
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
