import { BerthError } from "./errors.ts";

const DURATION_UNITS_MS: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** The pattern of a duration in a spec, one or more numbers with a unit, as in Go and Compose (`1m30s`). */
export const durationPattern = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d))+$";

/**
 * Returns the milliseconds of a duration such as `250ms`, `10s`, `1m30s`. Throws `invalid_request` for anything else.
 */
export function parseDuration(text: string): number {
  if (!new RegExp(durationPattern).test(text)) {
    throw new BerthError("invalid_request", `"${text}" is not a duration`, {
      hint: "write a duration as 500ms, 10s, 5m or 1h30m",
    });
  }
  let totalMs = 0;
  for (const match of text.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)/g)) {
    totalMs += Number(match[1]) * (DURATION_UNITS_MS[match[2] ?? ""] ?? 0);
  }
  return Math.round(totalMs);
}

const BYTE_UNITS: Record<string, number> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** The pattern of a memory quantity, as in Kubernetes: `256Mi`, `1.5Gi`, `500M`, `1048576`. */
export const bytesPattern = "^[0-9]+(\\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$";

export function parseBytes(text: string): number {
  const match = /^([0-9]+(?:\.[0-9]+)?)(k|M|G|T|Ki|Mi|Gi|Ti)?$/.exec(text);
  if (!match)
    throw new BerthError("invalid_request", `"${text}" is not an amount of memory`, {
      hint: "write it as 256Mi or 1Gi",
    });
  return Math.round(Number(match[1]) * (BYTE_UNITS[match[2] ?? ""] ?? 1));
}

/** The pattern of a CPU quantity, as in Kubernetes: `2`, `0.5`, `500m`. */
export const cpuPattern = "^([0-9]+(\\.[0-9]+)?|[0-9]+m)$";

/** Parses a CPU quantity and returns billionths of a CPU, the unit of the Docker API. */
export function parseCpu(text: string): number {
  if (!new RegExp(cpuPattern).test(text)) {
    throw new BerthError("invalid_request", `"${text}" is not an amount of CPU`, {
      hint: 'write it as "0.5" or 500m',
    });
  }
  return Math.round(text.endsWith("m") ? Number(text.slice(0, -1)) * 1e6 : Number(text) * 1e9);
}

/** Formats a number of bytes for people, such as 1536 as "1.5 KiB". */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

/** Parses a text that formatBytes has written, such as "1.5 KiB" as 1536. Returns undefined for any other text. */
export function parseFormattedBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d)?) (B|KiB|MiB|GiB|TiB)$/.exec(text);
  const power = ["B", "KiB", "MiB", "GiB", "TiB"].indexOf(match?.[2] ?? "");
  return match ? Math.round(Number(match[1]) * 1024 ** power) : undefined;
}
