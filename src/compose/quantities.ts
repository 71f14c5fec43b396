import { durationPattern, parseDuration } from "../base/units.ts";
import type { ComposeNode } from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

const unitDurationsMs: Readonly<Record<string, number>> = {
  w: 604_800_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 0.001,
  µs: 0.001,
  ns: 0.000_001,
};

/** Converts a duration of Compose to a duration of Berth. Reports an invalid duration and returns undefined. */
export function convertDuration(
  conversion: ServiceConversion,
  node: ComposeNode,
): string | undefined {
  const text = conversion.readText(node)?.trim();
  if (text === undefined) return undefined;
  if (new RegExp(durationPattern).test(text) && Number.isSafeInteger(parseDuration(text)))
    return text;
  if (/^0+$/.test(text)) return "0s";
  if (/^((?:[0-9]+\.?[0-9]*|\.[0-9]+)(w|d|h|ms|us|µs|ns|m|s))+$/.test(text)) {
    let totalMs = 0;
    for (const [, amount, unit] of text.matchAll(/([0-9.]+)(w|d|h|ms|us|µs|ns|m|s)/g)) {
      totalMs += Number(amount) * (unitDurationsMs[unit ?? ""] ?? 0);
    }
    if (Number.isSafeInteger(Math.round(totalMs))) return `${Math.round(totalMs)}ms`;
  }
  conversion.addLoss(node, `"${text}" is not a duration, such as 30s or 1m30s`);
  return undefined;
}

export function isLongerThan(duration: string, thanMs: number): boolean {
  return parseDuration(duration) > thanMs;
}

const bytesPerUnit: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
  p: 2 ** 50,
};

/** Parses `512m`, `1.5g` or `64mb`; all units are powers of two, as in Compose. */
export function parseComposeBytes(text: string): number | undefined {
  const match = /^([0-9]+(?:\.[0-9]+)?)\s*([bkmgtp]?)(?:i?b)?$/i.exec(text.trim());
  return match
    ? Math.round(Number(match[1]) * (bytesPerUnit[match[2]?.toLowerCase() ?? ""] ?? 1))
    : undefined;
}

/** Formats a number of bytes in the largest unit that gives a whole number. */
export function formatBerthBytes(bytes: number): string {
  for (const [unit, size] of [
    ["Gi", 2 ** 30],
    ["Mi", 2 ** 20],
    ["Ki", 2 ** 10],
  ] as const) {
    if (bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return String(bytes);
}
