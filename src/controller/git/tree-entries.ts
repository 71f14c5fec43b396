import { invalidTree } from "./git-errors.ts";

/** One entry of the tree of a commit. */
export interface TreeEntry {
  /** The relative path, separated by `/`. Every name in the path has been checked. */
  readonly path: string;
  readonly type: "file" | "executable" | "link" | "folder" | "submodule";
  readonly oid: string;
}

/**
 * Limits in bytes: for one name in a path, as on Linux, and for the path in the commit. Linux allows 4,096 bytes for
 * the whole path, including the folder of the checkout.
 */
const NAME_BYTES_MAX = 255;
const PATH_BYTES_MAX = 3072;

/** Parses the mode, which git stores as text. Old versions of git wrote 100664, and leading zeros. */
export function parseEntryType(mode: string): TreeEntry["type"] {
  const number = Number.parseInt(mode, 8);
  switch (number & 0o170000) {
    case 0o040000:
      return "folder";
    case 0o100000:
      return (number & 0o111) === 0 ? "file" : "executable";
    case 0o120000:
      return "link";
    case 0o160000:
      return "submodule";
    default:
      throw invalidTree(`an entry of the commit has the unknown mode ${JSON.stringify(mode)}`);
  }
}

/** Joins `name` to `folder` ("" is the top). Throws archive_invalid for a name that could escape from the folder. */
export function joinEntryPath(folder: string, name: string): string {
  const shown = JSON.stringify(name.slice(0, 80));
  if (name === "" || name === "." || name === "..")
    throw invalidTree(`the commit has a file called ${shown}`);
  if (name.includes("/") || name.includes("\0"))
    throw invalidTree(`the commit has a file called ${shown}, which is a path`);
  // Upper and lower case count as equal, because some file systems do not distinguish them.
  if (name.toLowerCase() === ".git") throw invalidTree(`the commit has a file called ${shown}`);
  const path = folder === "" ? name : `${folder}/${name}`;
  if (Buffer.byteLength(name) > NAME_BYTES_MAX || Buffer.byteLength(path) > PATH_BYTES_MAX)
    throw invalidTree(`the name of the file ${shown} is too long`);
  return path;
}

/** Parses a tree object of git: `MODE SP NAME NUL` and 20 bytes for each entry. */
export function* parseTree(tree: Buffer, folder: string): Generator<TreeEntry> {
  let at = 0;
  while (at < tree.length) {
    const blank = tree.indexOf(0x20, at);
    const end = blank < 0 ? -1 : tree.indexOf(0, blank);
    if (end < 0 || end + 21 > tree.length) throw invalidTree("a tree of the commit is damaged");
    yield {
      type: parseEntryType(tree.toString("latin1", at, blank)),
      path: joinEntryPath(folder, tree.toString("utf8", blank + 1, end)),
      oid: tree.toString("hex", end + 1, end + 21),
    };
    at = end + 21;
  }
}
