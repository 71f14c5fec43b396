/** What a hub says of a repository, as far as it is needed here. */
export interface RepositoryListing {
  /** As the hub spells it, which may be another than asked for; undefined where it does not say. */
  readonly id: string | undefined;
  readonly commit: string;
  /** Everybody sees the listing of a gated repository; its files are for some. */
  readonly isGated: boolean;
  readonly files: readonly ListedFile[];
}

export interface ListedFile {
  readonly name: string;
  readonly sizeBytes: number | null;
  /** Of the LFS object. */
  readonly sha256: string | null;
  /** git's SHA-1 of the file itself; null for one in LFS, where it is the pointer's. */
  readonly gitBlob: string | null;
}

/** More files than any repository of models has. */
const FILES_MAX = 100_000;

/** Undefined for what is no listing. Files with names that no file may have here are left out. */
export function parseRepositoryListing(body: Buffer): RepositoryListing | undefined {
  const value = parseJson(body);
  if (!isRecord(value)) return undefined;
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
  if (!isRecord(value)) return undefined;
  const { rfilename: name, size, blobId, lfs } = value;
  if (typeof name !== "string" || !isSafeName(name)) return undefined;
  // Endpoints differ in the name of the digest.
  const sha256 = isRecord(lfs) ? parseHex(lfs["sha256"] ?? lfs["oid"], 64) : null;
  return {
    name,
    sizeBytes: parseCount(size) ?? (isRecord(lfs) ? parseCount(lfs["size"]) : null),
    sha256,
    gitBlob: lfs === undefined || lfs === null ? parseHex(blobId, 40) : null,
  };
}

/** Its parts become names of files: none may lead out of the folder, or be cut off on the way. */
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

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}
