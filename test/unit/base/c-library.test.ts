import { expect, it } from "vitest";
import { isMusl } from "../../../src/base/c-library.ts";

it.each([
  ["a Linux with glibc", "linux", { header: { glibcVersionRuntime: "2.36" } }, false],
  ["a Linux with musl", "linux", { header: { osName: "Linux" } }, true],
  ["another system", "darwin", { header: { osName: "Darwin" } }, false],
  ["a report without a header", "linux", {}, false],
])("isMusl() recognises whether the C library is musl: %s", (_, platform, report, expected) => {
  expect(isMusl({ platform, report })).toBe(expected);
});
