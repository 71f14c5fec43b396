/**
 * Stores the methods of each path, for 405 errors and OPTIONS responses. A path may end in `/*`, which matches all
 * longer paths.
 */
export class KnownPaths {
  readonly #methods = new Map<string, Set<string>>();

  add(methods: string | readonly string[], path: string): void {
    const known = this.#methods.get(path) ?? new Set();
    for (const method of [methods].flat()) known.add(method);
    this.#methods.set(path, known);
  }

  /** Returns all paths without a wildcard, sorted. */
  listPlain(): readonly string[] {
    return [...this.#methods.keys()].filter((path) => !path.endsWith("/*")).toSorted();
  }

  /**
   * Returns the methods of a path, sorted and including OPTIONS. Returns an empty list for an unknown path. The path
   * `*` means the whole server.
   */
  getMethods(path: string): readonly string[] {
    const found = new Set<string>();
    const plain = normalizePath(path);
    for (const [known, methods] of this.#methods) {
      const isMatch = known.endsWith("/*")
        ? plain.startsWith(known.slice(0, -1)) && plain.length > known.length - 1
        : plain === known || plain === "*";
      if (isMatch) for (const method of methods) found.add(method);
    }
    return found.size === 0 ? [] : [...found.add("OPTIONS")].toSorted();
  }
}

/** Normalises a path in the same way as the router: removes the query, doubled slashes and the trailing slash. */
function normalizePath(path: string): string {
  const plain = (path.split("?", 1)[0] ?? "").replaceAll(/\/{2,}/g, "/");
  return plain.length > 1 ? plain.replace(/\/$/, "") : plain;
}
