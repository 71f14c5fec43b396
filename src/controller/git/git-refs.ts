/** One line of what a server lists. `peeled` is the commit that an annotated tag stands for. */
export interface ListedRef {
  readonly name: string;
  readonly oid: string;
  readonly peeled?: string | undefined;
}

export interface ResolvedRef {
  /** `refs/heads/main`, or `HEAD`. */
  readonly name: string;
  readonly commit: string;
}

const FULL_COMMIT = /^[0-9a-f]{40}$/i;

/** The commit, in small letters, where `ref` is all 40 digits of one. */
export function parseFullCommit(ref: string | undefined): string | undefined {
  return ref !== undefined && FULL_COMMIT.test(ref) ? ref.toLowerCase() : undefined;
}

/**
 * The full names that `ref` may stand for, the likeliest first: branches before tags, since what is
 * followed is a branch. git itself asks the other way round.
 */
export function expandRefNames(ref: string | undefined): readonly string[] {
  if (ref === undefined || ref === "HEAD") return ["HEAD"];
  if (ref.startsWith("refs/")) return [ref];
  return [`refs/heads/${ref}`, `refs/tags/${ref}`];
}

/** What no ref can be called: git's own rules, and nothing that a program would take for an option. */
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
