import type { IncomingHttpHeaders } from "node:http";
import { parseRetryAfter } from "../../../base/retry-after.ts";
import type { ByteRange } from "./ranges.ts";

/** What was asked for, and what is known of the file. */
export interface ExpectedRange {
  /** Undefined where the whole file was asked for. */
  readonly range: ByteRange | undefined;
  readonly sizeBytes: number | null;
  readonly validator: string | null;
}

export type RangeResponse =
  /** Its bytes lie from the start of the range that was asked for up to `end`. */
  | {
      readonly type: "part";
      readonly end: number;
      readonly sizeBytes: number;
      readonly validator: string | null;
    }
  /** The body is the file from its first byte on. */
  | {
      readonly type: "whole";
      readonly sizeBytes: number | null;
      readonly validator: string | null;
    }
  /** The file is another one now; its size where it is told. */
  | { readonly type: "changed"; readonly sizeBytes: number | null }
  /** A page for people in place of the file, as networks send that want a sign-in. */
  | { readonly type: "page" }
  /** What it says does not fit together: nothing of it can be used. */
  | { readonly type: "lying"; readonly why: string }
  | { readonly type: "status"; readonly status: number; readonly retryAfterMs: number | undefined };

/** What an answer is, by its head alone. Pure. */
export function classifyRangeResponse(
  status: number,
  headers: IncomingHttpHeaders,
  expected: ExpectedRange,
  nowMs: number,
): RangeResponse {
  if (status === 416) return classifyUnsatisfiable(headers, expected, nowMs);
  if (status !== 200 && status !== 206)
    return { type: "status", status, retryAfterMs: parseRetryAfter(headers["retry-after"], nowMs) };
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    return {
      type: "lying",
      why: `it sends the file compressed (${encoding}), and was not asked to`,
    };
  const validator = parseStrongTag(headers.etag);
  const length = parseWholeNumber(headers["content-length"]);
  const isOther =
    expected.validator !== null && validator !== null && validator !== expected.validator;
  if (status === 200) {
    const isOtherSize =
      expected.sizeBytes !== null && length !== undefined && length !== expected.sizeBytes;
    const isPage = /^text\/html\b/i.test(headers["content-type"] ?? "");
    if (isPage && (isOtherSize || length === undefined)) return { type: "page" };
    if (isOther || isOtherSize) return { type: "changed", sizeBytes: length ?? null };
    return { type: "whole", sizeBytes: length ?? expected.sizeBytes, validator };
  }
  const sentRange = parseContentRange(headers["content-range"]);
  const { range } = expected;
  if (!range) return { type: "lying", why: "it sends a part, and the whole was asked for" };
  if (!sentRange)
    return { type: "lying", why: "it sends a part, and does not say which (Content-Range)" };
  const sizeBytes = sentRange.sizeBytes ?? expected.sizeBytes;
  if (sizeBytes === null) return { type: "lying", why: "it does not say how large the file is" };
  if (isOther || (expected.sizeBytes !== null && sizeBytes !== expected.sizeBytes))
    return { type: "changed", sizeBytes };
  if (sentRange.start !== range.start || sentRange.end > range.end || sentRange.end > sizeBytes)
    return {
      type: "lying",
      why: `bytes ${range.start}-${range.end - 1} were asked for, and it sends ${sentRange.start}-${sentRange.end - 1}`,
    };
  if (length !== undefined && length !== sentRange.end - sentRange.start)
    return {
      type: "lying",
      why: `it says that ${sentRange.end - sentRange.start} bytes come, and in another place ${length}`,
    };
  return { type: "part", end: sentRange.end, sizeBytes, validator };
}

/** The range lies behind the end of the file, which is shorter than was thought. */
function classifyUnsatisfiable(
  headers: IncomingHttpHeaders,
  expected: ExpectedRange,
  nowMs: number,
): RangeResponse {
  const size = /^bytes \*\/(\d{1,15})$/.exec(headers["content-range"] ?? "")?.[1];
  if (size === undefined)
    return {
      type: "status",
      status: 416,
      retryAfterMs: parseRetryAfter(headers["retry-after"], nowMs),
    };
  if (Number(size) === expected.sizeBytes)
    return { type: "lying", why: "it has the file, and not the bytes that were asked for" };
  return { type: "changed", sizeBytes: Number(size) };
}

/** Only a strong tag says that two answers have the same bytes. */
export function parseStrongTag(etag: string | undefined): string | null {
  return etag !== undefined && /^"[^"]{1,1024}"$/.test(etag) ? etag : null;
}

function parseContentRange(
  value: string | undefined,
): { start: number; end: number; sizeBytes: number | null } | undefined {
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(value ?? "");
  if (!match) return undefined;
  const [start, last] = [Number(match[1]), Number(match[2])];
  if (last < start) return undefined;
  return { start, end: last + 1, sizeBytes: match[3] === "*" ? null : Number(match[3]) };
}

function parseWholeNumber(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
}
