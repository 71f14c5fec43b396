import type { IncomingHttpHeaders } from "node:http";
import { parseRetryAfter } from "../../../base/retry-after.ts";
import type { ByteRange } from "./ranges.ts";

/** The byte range that a request asks for, with the size and the validator of the file (null if unknown). */
export interface ExpectedRange {
  /** The requested range; undefined if the whole file was requested. */
  readonly range: ByteRange | undefined;
  readonly sizeBytes: number | null;
  readonly validator: string | null;
}

export type RangeResponse =
  /** The response contains the bytes from the start of the requested range up to `end`. */
  | {
      readonly type: "part";
      readonly end: number;
      readonly sizeBytes: number;
      readonly validator: string | null;
    }
  /** The response contains the whole file from its first byte. */
  | {
      readonly type: "whole";
      readonly sizeBytes: number | null;
      readonly validator: string | null;
    }
  /** The file at the source has changed; `sizeBytes` is its new size, if the server sent it. */
  | { readonly type: "changed"; readonly sizeBytes: number | null }
  /** The response is a web page instead of the file, such as the sign-in page of a network. */
  | { readonly type: "page" }
  /** The headers contradict each other or the request, so the body cannot be used. */
  | { readonly type: "bad-range"; readonly why: string }
  | { readonly type: "status"; readonly status: number; readonly retryAfterMs: number | undefined };

/** Classifies a response by its status and headers. Pure. */
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
      type: "bad-range",
      why: `the file is compressed (${encoding}), which was not requested`,
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
  if (!range)
    return {
      type: "bad-range",
      why: "the response is a part of the file, but the whole file was requested",
    };
  if (!sentRange)
    return {
      type: "bad-range",
      why: "the response is a part of the file without a usable Content-Range",
    };
  const sizeBytes = sentRange.sizeBytes ?? expected.sizeBytes;
  if (sizeBytes === null)
    return { type: "bad-range", why: "the response does not contain the size of the file" };
  if (isOther || (expected.sizeBytes !== null && sizeBytes !== expected.sizeBytes))
    return { type: "changed", sizeBytes };
  if (sentRange.start !== range.start || sentRange.end > range.end || sentRange.end > sizeBytes)
    return {
      type: "bad-range",
      why: `bytes ${range.start}-${range.end - 1} were requested, but the response has ${sentRange.start}-${sentRange.end - 1}`,
    };
  if (length !== undefined && length !== sentRange.end - sentRange.start)
    return {
      type: "bad-range",
      why: `the Content-Range of the response has ${sentRange.end - sentRange.start} bytes, and its Content-Length ${length}`,
    };
  return { type: "part", end: sentRange.end, sizeBytes, validator };
}

/**
 * Classifies a response with status 416. The range is beyond the end of the file, so the file may be shorter than
 * expected.
 */
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
    return {
      type: "bad-range",
      why: "the response says that the requested bytes are beyond the end of the file, whose size has not changed",
    };
  return { type: "changed", sizeBytes: Number(size) };
}

/** Returns an entity tag if it is strong, else null. Only equal strong tags prove that two responses are equal. */
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
