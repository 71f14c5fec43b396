import type { ParkedCall } from "../../client/bus/agent-wire.ts";
import { formatDurationMs } from "../format-time.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import { formatTable } from "../output/table.ts";
import { sanitizeLine } from "./untrusted-text.ts";

/** Returns a table with one line for each parked call. Arguments are shortened. */
export function showParkedCalls(calls: readonly ParkedCall[], style: ViewOptions): string {
  return formatTable(
    calls,
    [
      { header: "CALL", value: ({ callId }) => String(callId), isRightAligned: true },
      { header: "APP", value: ({ spec }) => sanitizeLine(spec.appId) },
      { header: "TOOL", value: ({ spec }) => sanitizeLine(spec.tool) },
      {
        header: "TIER",
        value: ({ spec }) => sanitizeLine(spec.effectiveTier),
        colour: (text, { spec }) =>
          spec.effectiveTier === "destructive"
            ? style.colours.red(text)
            : style.colours.yellow(text),
      },
      { header: "ENDS IN", value: ({ spec }) => formatRemaining(spec.expiresAt, style.nowMs) },
      {
        header: "ARGUMENTS",
        value: ({ spec }) =>
          sanitizeLine(
            spec.diff.map(({ label, value }) => `${label}=${JSON.stringify(value)}`).join(" "),
          ),
        canShrink: true,
      },
    ],
    { width: style.width },
  );
}

function formatRemaining(expiresAt: string | undefined, nowMs: number): string {
  const atMs = Date.parse(expiresAt ?? "");
  return Number.isNaN(atMs) ? "" : formatDurationMs(atMs - nowMs);
}
