import { describe, expect, test } from "vitest";
import {
  joinEntryPath,
  parseEntryType,
  parseTree,
} from "../../../../src/controller/git/tree-entries.ts";
import { catchBerthError } from "../../../support/catch-berth-error.ts";

const OID = "ab".repeat(20);
const raw = (mode: string, name: string) =>
  Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(OID, "hex")]);

describe("a tree object", () => {
  test("is parsed into its entries", () => {
    const tree = Buffer.concat([raw("100644", "a b"), raw("40000", "dir"), raw("160000", "ü")]);
    expect([...parseTree(tree, "top")]).toEqual([
      { type: "file", path: "top/a b", oid: OID },
      { type: "folder", path: "top/dir", oid: OID },
      { type: "submodule", path: "top/ü", oid: OID },
    ]);
    expect([...parseTree(Buffer.alloc(0), "")]).toEqual([]);
  });

  test.each([5, 10, 27])("that is cut off after %d bytes is invalid", (bytes) => {
    const work = () => [...parseTree(raw("100644", "a").subarray(0, bytes), "")];
    expect(catchBerthError(work).code).toBe("archive_invalid");
  });
});

test.each([
  ["100644", "file"],
  ["100664", "file"],
  ["100755", "executable"],
  ["120000", "link"],
  ["40000", "folder"],
  ["040000", "folder"],
  ["160000", "submodule"],
])("the mode %s of a tree entry means that the entry is of the type %s", (mode, type) => {
  expect(parseEntryType(mode)).toBe(type);
});

test.each(["60000", "20000", "10000", "140000", "", "abc"])(
  "the mode %j of a tree entry is refused",
  (mode) => {
    expect(catchBerthError(() => parseEntryType(mode)).code).toBe("archive_invalid");
  },
);

test.each(["", ".", "..", ".git", ".GIT", "a/b", "/a", "a\0b", "n".repeat(256)])(
  "the name %j of a tree entry is refused",
  (name) => {
    expect(catchBerthError(() => joinEntryPath("dir", name)).code).toBe("archive_invalid");
  },
);

test.each(["...", ".gitignore", ".github", "git", "a\\b", "-rf", "a\nb"])(
  "the name %j of a tree entry is accepted",
  (name) => {
    expect(joinEntryPath("dir", name)).toBe(`dir/${name}`);
  },
);
