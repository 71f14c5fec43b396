/** One ref of a server. `peeled` is the commit of an annotated tag. */
export interface ListedRef {
  readonly name: string;
  readonly oid: string;
  readonly peeled?: string | undefined;
}

export interface ResolvedRef {
  /** The full name: `refs/heads/main`, or `HEAD`. */
  readonly name: string;
  readonly commit: string;
}

const FULL_COMMIT = /^[0-9a-f]{40}$/i;

/** Returns the commit in lower case if `ref` is a full hash of 40 digits. */
export function parseFullCommit(ref: string | undefined): string | undefined {
  return ref !== undefined && FULL_COMMIT.test(ref) ? ref.toLowerCase() : undefined;
}

/**
 * Returns the full names that `ref` may mean, in order of preference: branches before tags, since an App usually
 * follows a branch. git itself prefers tags.
 */
export function expandRefNames(ref: string | undefined): readonly string[] {
  if (ref === undefined || ref === "HEAD") return ["HEAD"];
  if (ref.startsWith("refs/")) return [ref];
  return [`refs/heads/${ref}`, `refs/tags/${ref}`];
}

/**
 * Returns false for names that no ref can have: names that git forbids, and names that a program could read as an
 * option.
 */
export function isRefName(ref: string): boolean {
  return !(
    ref.startsWith("-") ||
    ref.startsWith("/") ||
    /[\s\p{Cc}~^:?*[\\]|\.\.|@\{|\/\/|\.lock$|[./]$/u.test(ref)
  );
}

export function chooseRef(
  refs: readonly ListedRef[],
  names: readonly string[],
): ResolvedRef | undefined {
  for (const name of names) {
    const found = refs.find((ref) => ref.name === name);
    if (found) return { name, commit: (found.peeled ?? found.oid).toLowerCase() };
  }
  return undefined;
}
