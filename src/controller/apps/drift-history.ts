/**
 * Berth stops correcting a field after DRIFT_CORRECTIONS_MAX corrections within this time, because another program
 * keeps changing the field.
 */
export const DRIFT_WINDOW_MS = 10 * 60_000;
export const DRIFT_CORRECTIONS_MAX = 3;

export type DriftHistory = readonly { readonly field: string; readonly at: number }[];

export function recentDrifts(drifts: DriftHistory, nowMs: number): DriftHistory {
  return drifts.filter((drift) => drift.at > nowMs - DRIFT_WINDOW_MS);
}

/** Returns the first of `fields` that has been corrected too often; undefined if all may be corrected. */
export function findDriftLoop(
  drifts: DriftHistory,
  fields: readonly string[],
  nowMs: number,
): string | undefined {
  const recent = recentDrifts(drifts, nowMs);
  return fields.find(
    (field) => recent.filter((drift) => drift.field === field).length >= DRIFT_CORRECTIONS_MAX,
  );
}

export function nameDriftField(what: string, replica: number): string {
  return replica === 0 ? what : `${what} of replica ${replica}`;
}
