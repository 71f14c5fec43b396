import type { ConfirmationSpec, DiffRow } from "../../client/bus/agent-wire.ts";
import { formatTime } from "../format-time.ts";
import { displayWidth, truncateToWidth } from "../output/display-width.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import { sanitizeBlock, sanitizeLine } from "./untrusted-text.ts";

const WIDTH_STANDARD = 80;
const LABEL_WIDTH_MAX = 24;

/**
 * Returns a text about a call for the user who approves or declines it. All values are untrusted, so each is to the
 * right of a label and never at the start of a line.
 */
export function showConfirmationSpec(
  callId: bigint,
  spec: ConfirmationSpec,
  style: ViewOptions,
): string {
  const width = style.width ?? WIDTH_STANDARD;
  const rows: (readonly [string, string])[] = [
    ["Call", String(callId)],
    ["App", spec.appName === spec.appId ? spec.appId : `${spec.appId} (${spec.appName})`],
    ["Tool", spec.title === spec.tool ? spec.tool : `${spec.tool} (${spec.title})`],
    ["About", spec.description],
    ["Tier", formatTier(spec)],
    ["Because of", spec.chain.length === 0 ? "unknown" : spec.chain.map(quoteLabel).join(" > ")],
    ["Asked by", formatCaller(spec)],
    ["Undo", spec.undoTool ?? "not possible"],
    ["Until", formatTime(spec.expiresAt, style.nowMs)],
  ];
  const margin = Math.max(...rows.map(([name]) => name.length)) + 5;
  const lines = rows
    .filter(([, text]) => text !== "")
    .map(([name, text]) => formatLabelled(`  ${name}:`.padEnd(margin), sanitizeLine(text), width));
  const heading = `${sanitizeLine(spec.appName)}: ${sanitizeLine(spec.title)}`;
  return [
    style.colours.bold(truncateToWidth(heading, width)),
    ...lines,
    spec.diff.length === 0 ? "  Without arguments" : "  Arguments:",
    ...formatArguments(spec.diff, width),
  ].join("\n");
}

function formatTier({ declaredTier, effectiveTier }: ConfirmationSpec): string {
  return declaredTier === effectiveTier
    ? effectiveTier
    : `${effectiveTier}; declared as ${declaredTier}, but its provenance is not fully trusted`;
}

/** Quotes a label with a space, which could be read as two labels. */
function quoteLabel(text: string): string {
  return /^[^\s>"]+$/.test(text) ? text : JSON.stringify(text);
}

function formatCaller({ callerApp, isCallerVerified, actor }: ConfirmationSpec): string {
  const app =
    callerApp === undefined
      ? "a program of yours"
      : `${callerApp}${isCallerVerified ? "" : " (not verified)"}`;
  return actor === undefined ? app : `${app}, which calls itself ${JSON.stringify(actor)}`;
}

function formatArguments(diff: readonly DiffRow[], width: number): string[] {
  const labels = diff.map(({ label: text, path }) =>
    truncateToWidth(sanitizeLine(text === "" ? path : text), LABEL_WIDTH_MAX),
  );
  const widest = Math.max(0, ...labels.map((text) => displayWidth(text)));
  return diff.map(({ value }, index) => {
    const text = labels[index] ?? "";
    const padding = " ".repeat(widest - displayWidth(text));
    return formatLabelled(`    ${text}${padding}  `, formatValue(value), width);
  });
}

/** Returns a string of several lines unchanged, and any other value as JSON, so that "1" and 1 differ. */
function formatValue(value: unknown): string {
  if (typeof value === "string" && value.includes("\n")) return value;
  return JSON.stringify(value) ?? "(none)";
}

/** Formats a name and an untrusted value. Each line of a value with several lines is indented and begins with `|`. */
export function formatLabelled(name: string, value: string, width: number): string {
  const margin = " ".repeat(displayWidth(name));
  const single = sanitizeBlock(value, margin, width);
  if (!single.includes("\n")) return `${name}${single.slice(margin.length)}`;
  const marked = sanitizeBlock(value, `${margin}| `, width);
  return `${name}${marked.slice(margin.length)}`;
}
