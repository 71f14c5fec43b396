/** Knows the methods of each path, for 405 and OPTIONS: plain paths, and those that end in `/*`. */
export class KnownPaths {
  readonly #methods = new Map<string, Set<string>>();

  add(methods: string | readonly string[], path: string): void {
    const known = this.#methods.get(path) ?? new Set();
    for (const method of [methods].flat()) known.add(method);
    this.#methods.set(path, known);
  }

  /** All plain paths, sorted. */
  listPlain(): readonly string[] {
    return [...this.#methods.keys()].filter((path) => !path.endsWith("/*")).toSorted();
  }

  /** Sorted, with OPTIONS; empty for an unknown path. `*` stands for the whole server. */
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

/** Returns the path as the router sees it: without query, doubled slashes and trailing slash. */
function normalizePath(path: string): string {
  const plain = (path.split("?", 1)[0] ?? "").replaceAll(/\/{2,}/g, "/");
  return plain.length > 1 ? plain.replace(/\/$/, "") : plain;
}
