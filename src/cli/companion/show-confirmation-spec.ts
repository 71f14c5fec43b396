import type { ConfirmationSpec, DiffRow } from "../../client/bus/agent-wire.ts";
import { formatTime } from "../format-time.ts";
import { displayWidth, truncateToWidth } from "../output/display-width.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import { sanitizeBlock, sanitizeLine } from "./untrusted-text.ts";

const WIDTH_STANDARD = 80;
const LABEL_WIDTH_MAX = 24;

/**
 * What a call would do, for whoever decides about it. All of it but the labels on the left comes from
 * others: it stands to the right of them, and never begins a line.
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
    ["Undo", spec.undoTool ?? "it cannot be undone"],
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
    : `${effectiveTier}, by itself ${declaredTier}: not all that led to it is trusted`;
}

/** A label with a blank in it could pass for two. */
function quoteLabel(text: string): string {
  return /^[^\s>"]+$/.test(text) ? text : JSON.stringify(text);
}

function formatCaller({ callerApp, isCallerVerified, actor }: ConfirmationSpec): string {
  const app =
    callerApp === undefined
      ? "a program of yours"
      : `${callerApp}${isCallerVerified ? "" : ", as it says"}`;
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

/** A string of several lines as it is, anything else as JSON: "1" is not 1, and "true" not true. */
function formatValue(value: unknown): string {
  if (typeof value === "string" && value.includes("\n")) return value;
  return JSON.stringify(value) ?? "(none)";
}

/** A name in front of a value of somebody else's, which has a margin of its own, where it has more than a line. */
export function formatLabelled(name: string, value: string, width: number): string {
  const margin = " ".repeat(displayWidth(name));
  const single = sanitizeBlock(value, margin, width);
  if (!single.includes("\n")) return `${name}${single.slice(margin.length)}`;
  const marked = sanitizeBlock(value, `${margin}| `, width);
  return `${name}${marked.slice(margin.length)}`;
}
