import { isObject, tryParseJson } from "../../../base/json.ts";

/** The commit and the files of one revision of a repository, as the API of the hub reports them. */
export interface RepositoryListing {
  /**
   * The repository's id in the hub's spelling, which may differ from the request; undefined if the hub does not report
   * it.
   */
  readonly id: string | undefined;
  readonly commit: string;
  /** True if every user can list the repository, but only some users can download its files. */
  readonly isGated: boolean;
  readonly files: readonly ListedFile[];
}

export interface ListedFile {
  readonly name: string;
  readonly sizeBytes: number | null;
  /** Digest of the LFS object. */
  readonly sha256: string | null;
  /** git's SHA-1 of the file; null for a file in LFS, for which git has only the SHA-1 of a pointer file. */
  readonly gitBlob: string | null;
}

/** The limit of listed files, more than any repository of models has. */
const FILES_MAX = 100_000;

/**
 * Parses the listing of a repository; returns undefined if the value is not a listing. Leaves out files with unsafe
 * names.
 */
export function parseRepositoryListing(body: Buffer): RepositoryListing | undefined {
  const value = tryParseJson(body.toString("utf8"));
  if (!isObject(value)) return undefined;
  const { sha, siblings, gated, id } = value;
  if (typeof sha !== "string" || !/^[0-9a-f]{40,64}$/.test(sha)) return undefined;
  if (!Array.isArray(siblings) || siblings.length > FILES_MAX) return undefined;
  return {
    id: typeof id === "string" ? id : undefined,
    commit: sha,
    isGated: gated !== undefined && gated !== null && gated !== false,
    files: siblings.flatMap((sibling: unknown) => parseListedFile(sibling) ?? []),
  };
}

function parseListedFile(value: unknown): ListedFile | undefined {
  if (!isObject(value)) return undefined;
  const { rfilename: name, size, blobId, lfs } = value;
  if (typeof name !== "string" || !isSafeName(name)) return undefined;
  // The digest is named sha256 or oid, depending on the endpoint of the hub.
  const sha256 = isObject(lfs) ? parseHex(lfs["sha256"] ?? lfs["oid"], 64) : null;
  return {
    name,
    sizeBytes: parseCount(size) ?? (isObject(lfs) ? parseCount(lfs["size"]) : null),
    sha256,
    gitBlob: lfs === undefined || lfs === null ? parseHex(blobId, 40) : null,
  };
}

/** Returns true if each part of the name can be a file name: no part leads out of the folder or is too long. */
function isSafeName(name: string): boolean {
  if (name.length > 1024 || /\p{Cc}|\\/u.test(name)) return false;
  return name
    .split("/")
    .every(
      (part) => part !== "" && part !== "." && part !== ".." && Buffer.byteLength(part) <= 255,
    );
}

function parseCount(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

function parseHex(value: unknown, digits: number): string | null {
  const text = typeof value === "string" ? value.toLowerCase() : "";
  return text.length === digits && /^[0-9a-f]+$/.test(text) ? text : null;
}
