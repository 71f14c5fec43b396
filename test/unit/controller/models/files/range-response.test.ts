import { describe, expect, it } from "vitest";
import {
  classifyRangeResponse,
  type ExpectedRange,
} from "../../../../../src/controller/models/files/range-response.ts";

const wanted: ExpectedRange = {
  range: { start: 100, end: 200 },
  sizeBytes: 1000,
  validator: '"a"',
};
const whole: ExpectedRange = { range: undefined, sizeBytes: 1000, validator: null };
const part = { "content-range": "bytes 100-199/1000", "content-length": "100", etag: '"a"' };

describe("classifyRangeResponse", () => {
  it.each<[string, number, Record<string, string>, ExpectedRange, object]>([
    ["the part", 206, part, wanted, { type: "part", end: 200, sizeBytes: 1000, validator: '"a"' }],
    [
      "less than the part",
      206,
      { "content-range": "bytes 100-149/1000" },
      wanted,
      { type: "part", end: 150 },
    ],
    [
      "the part, size unknown",
      206,
      { "content-range": "bytes 100-199/*" },
      wanted,
      { type: "part" },
    ],
    ["a part without a range", 206, {}, wanted, { type: "bad-range" }],
    ["another part", 206, { "content-range": "bytes 0-99/1000" }, wanted, { type: "bad-range" }],
    [
      "more than the part",
      206,
      { "content-range": "bytes 100-200/1000" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "a part behind the end",
      206,
      { "content-range": "bytes 100-199/150" },
      { ...wanted, sizeBytes: null },
      { type: "bad-range" },
    ],
    ["two lengths", 206, { ...part, "content-length": "99" }, wanted, { type: "bad-range" }],
    [
      "a part backwards",
      206,
      { "content-range": "bytes 199-100/1000" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "a part without a size",
      206,
      { "content-range": "bytes 100-199/*" },
      { ...wanted, sizeBytes: null },
      { type: "bad-range" },
    ],
    ["a part of the whole", 206, part, whole, { type: "bad-range" }],
    ["compressed", 206, { ...part, "content-encoding": "gzip" }, wanted, { type: "bad-range" }],
    ["another tag", 206, { ...part, etag: '"b"' }, wanted, { type: "changed", sizeBytes: 1000 }],
    [
      "another size",
      206,
      { ...part, "content-range": "bytes 100-199/1001" },
      wanted,
      { type: "changed", sizeBytes: 1001 },
    ],
    [
      "a weak tag",
      206,
      { ...part, etag: 'W/"b"' },
      wanted,
      { type: "part", validator: null },
    ],
    [
      "the whole",
      200,
      { "content-length": "1000", etag: '"a"' },
      wanted,
      { type: "whole", sizeBytes: 1000, validator: '"a"' },
    ],
    [
      "the whole of another",
      200,
      { "content-length": "1000", etag: '"b"' },
      wanted,
      { type: "changed" },
    ],
    [
      "the whole, longer",
      200,
      { "content-length": "1001" },
      whole,
      { type: "changed", sizeBytes: 1001 },
    ],
    ["the whole, length unknown", 200, {}, whole, { type: "whole", sizeBytes: 1000 }],
    [
      "a page",
      200,
      { "content-type": "text/html; charset=utf-8", "content-length": "80" },
      wanted,
      { type: "page" },
    ],
    [
      "a page of that size",
      200,
      { "content-type": "text/html", "content-length": "1000" },
      wanted,
      { type: "whole" },
    ],
    [
      "behind the end",
      416,
      { "content-range": "bytes */90" },
      wanted,
      { type: "changed", sizeBytes: 90 },
    ],
    ["not behind the end", 416, { "content-range": "bytes */1000" }, wanted, { type: "bad-range" }],
    ["unsatisfiable without a reason", 416, {}, wanted, { type: "status", status: 416 }],
    [
      "busy",
      429,
      { "retry-after": "7" },
      wanted,
      { type: "status", status: 429, retryAfterMs: 7000 },
    ],
    [
      "busy until a date",
      503,
      { "retry-after": "Thu, 01 Jan 1970 00:00:30 GMT" },
      wanted,
      { status: 503, retryAfterMs: 20_000 },
    ],
    ["busy, in words", 503, { "retry-after": "soon" }, wanted, { retryAfterMs: undefined }],
  ])("%s (%i)", (_, status, headers, expected, verdict) => {
    expect(classifyRangeResponse(status, headers, expected, 10_000)).toMatchObject(verdict);
  });
});
