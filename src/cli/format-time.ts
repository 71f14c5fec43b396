/** Formats a duration as kubectl does: 90 s is "90s", 125 s is "2m5s", 20 min is "20m". */
export function formatDurationMs(durationMs: number): string {
  const seconds = Math.max(0, Math.floor(durationMs / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes}m${seconds % 60 === 0 ? "" : `${seconds % 60}s`}`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48)
    return hours < 8 && minutes % 60 !== 0 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 365 * 2) return `${days}d`;
  return `${Math.floor(days / 365)}y`;
}

/** Formats the time since an RFC 3339 time; "" if there is none. */
export function formatAge(time: string | null | undefined, nowMs: number): string {
  const epochMs = time ? Date.parse(time) : Number.NaN;
  return Number.isNaN(epochMs) ? "" : formatDurationMs(nowMs - epochMs);
}

/** Formats a time with its age: "2026-11-20 19:59:33 UTC (5m ago)". */
export function formatTime(time: string | null | undefined, nowMs: number): string {
  const epochMs = time ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(epochMs)) return "-";
  const text = new Date(epochMs).toISOString().slice(0, 19).replace("T", " ");
  const agoMs = nowMs - epochMs;
  return agoMs >= 0
    ? `${text} UTC (${formatDurationMs(agoMs)} ago)`
    : `${text} UTC (in ${formatDurationMs(-agoMs)})`;
}
