import type { WaitingCall } from "../../client/bus/agent-wire.ts";
import { formatDurationMs } from "../age.ts";
import type { Look } from "../output/sections.ts";
import { formatTable } from "../output/table.ts";
import { shownLine } from "./untrusted-text.ts";

/** A line for each call that waits; the arguments are cut, as nobody decides here. */
export function showWaiting(calls: readonly WaitingCall[], look: Look): string {
  return formatTable(
    calls,
    [
      { header: "CALL", value: ({ callId }) => String(callId), alignRight: true },
      { header: "APP", value: ({ spec }) => shownLine(spec.appId) },
      { header: "TOOL", value: ({ spec }) => shownLine(spec.tool) },
      {
        header: "TIER",
        value: ({ spec }) => shownLine(spec.effectiveTier),
        colour: (text, { spec }) =>
          spec.effectiveTier === "destructive" ? look.colours.red(text) : look.colours.yellow(text),
      },
      { header: "ENDS IN", value: ({ spec }) => remaining(spec.expiresAt, look.nowMs) },
      {
        header: "ARGUMENTS",
        value: ({ spec }) =>
          shownLine(
            spec.diff.map(({ label, value }) => `${label}=${JSON.stringify(value)}`).join(" "),
          ),
        shrinks: true,
      },
    ],
    { width: look.width },
  );
}

function remaining(expiresAt: string | undefined, nowMs: number): string {
  const atMs = Date.parse(expiresAt ?? "");
  return Number.isNaN(atMs) ? "" : formatDurationMs(atMs - nowMs);
}
