import { describe, expect, it } from "vitest";
import { resolveResumeState } from "../../../../../src/controller/models/files/resume-state.ts";

const found = { source: "here", validator: '"a"', sizeBytes: 100, keys: [] };
const wanted = { source: "here", hasDigest: false, sizeBytes: 100 };
const written = [{ start: 0, end: 50 }];

describe("the downloaded bytes of an earlier attempt", () => {
  it.each<[string, Partial<typeof found>, Partial<typeof wanted>, object | undefined]>([
    ["with their entity tag", {}, {}, { sizeBytes: 100, validator: '"a"' }],
    ["without an entity tag or digest", { validator: "" }, {}, undefined],
    ["of another URL, without a digest", { source: "there" }, {}, undefined],
    [
      "of another URL, with a digest",
      { source: "there" },
      { hasDigest: true },
      { validator: null },
    ],
    ["of another size", { sizeBytes: 99 }, { hasDigest: true }, undefined],
    [
      "beyond the end of the file",
      { sizeBytes: 40 },
      { hasDigest: true, sizeBytes: 40 },
      undefined,
    ],
  ])(
    "are kept or discarded, depending on their origin: bytes %s",
    (_, changed, asked, expected) => {
      const origin = { ...found, ...changed, validator: changed.validator === "" ? null : '"a"' };
      const result = resolveResumeState(origin, written, { ...wanted, ...asked });
      if (expected === undefined) expect(result).toBeUndefined();
      else expect(result).toMatchObject(expected);
    },
  );
});
