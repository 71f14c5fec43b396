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
    [
      "the requested part",
      206,
      part,
      wanted,
      { type: "part", end: 200, sizeBytes: 1000, validator: '"a"' },
    ],
    [
      "less than the requested part",
      206,
      { "content-range": "bytes 100-149/1000" },
      wanted,
      { type: "part", end: 150 },
    ],
    [
      "the requested part without the size",
      206,
      { "content-range": "bytes 100-199/*" },
      wanted,
      { type: "part" },
    ],
    ["a part without a range", 206, {}, wanted, { type: "bad-range" }],
    ["another part", 206, { "content-range": "bytes 0-99/1000" }, wanted, { type: "bad-range" }],
    [
      "more than the requested part",
      206,
      { "content-range": "bytes 100-200/1000" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "a part beyond the end of the file",
      206,
      { "content-range": "bytes 100-199/150" },
      { ...wanted, sizeBytes: null },
      { type: "bad-range" },
    ],
    [
      "two different lengths",
      206,
      { ...part, "content-length": "99" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "a part with the end before the start",
      206,
      { "content-range": "bytes 199-100/1000" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "a part of a file of unknown size",
      206,
      { "content-range": "bytes 100-199/*" },
      { ...wanted, sizeBytes: null },
      { type: "bad-range" },
    ],
    ["a part in response to a request of the whole file", 206, part, whole, { type: "bad-range" }],
    [
      "a compressed part",
      206,
      { ...part, "content-encoding": "gzip" },
      wanted,
      { type: "bad-range" },
    ],
    [
      "another entity tag",
      206,
      { ...part, etag: '"b"' },
      wanted,
      { type: "changed", sizeBytes: 1000 },
    ],
    [
      "another size",
      206,
      { ...part, "content-range": "bytes 100-199/1001" },
      wanted,
      { type: "changed", sizeBytes: 1001 },
    ],
    [
      "a weak entity tag",
      206,
      { ...part, etag: 'W/"b"' },
      wanted,
      { type: "part", validator: null },
    ],
    [
      "the whole file",
      200,
      { "content-length": "1000", etag: '"a"' },
      wanted,
      { type: "whole", sizeBytes: 1000, validator: '"a"' },
    ],
    [
      "the whole file with another entity tag",
      200,
      { "content-length": "1000", etag: '"b"' },
      wanted,
      { type: "changed" },
    ],
    [
      "the whole file with another size",
      200,
      { "content-length": "1001" },
      whole,
      { type: "changed", sizeBytes: 1001 },
    ],
    ["the whole file without a length", 200, {}, whole, { type: "whole", sizeBytes: 1000 }],
    [
      "a web page",
      200,
      { "content-type": "text/html; charset=utf-8", "content-length": "80" },
      wanted,
      { type: "page" },
    ],
    [
      "a web page of the expected size",
      200,
      { "content-type": "text/html", "content-length": "1000" },
      wanted,
      { type: "whole" },
    ],
    [
      "a range beyond the end of the file",
      416,
      { "content-range": "bytes */90" },
      wanted,
      { type: "changed", sizeBytes: 90 },
    ],
    [
      "a range that is not beyond the end of the file",
      416,
      { "content-range": "bytes */1000" },
      wanted,
      { type: "bad-range" },
    ],
    ["unsatisfiable without a reason", 416, {}, wanted, { type: "status", status: 416 }],
    [
      "overloaded",
      429,
      { "retry-after": "7" },
      wanted,
      { type: "status", status: 429, retryAfterMs: 7000 },
    ],
    [
      "overloaded until a date",
      503,
      { "retry-after": "Thu, 01 Jan 1970 00:00:30 GMT" },
      wanted,
      { status: 503, retryAfterMs: 20_000 },
    ],
    [
      "overloaded with an invalid Retry-After",
      503,
      { "retry-after": "soon" },
      wanted,
      { retryAfterMs: undefined },
    ],
  ])("returns the expected verdict for %s (status %i)", (_, status, headers, expected, verdict) => {
    expect(classifyRangeResponse(status, headers, expected, 10_000)).toMatchObject(verdict);
  });
});
