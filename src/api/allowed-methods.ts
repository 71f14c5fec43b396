/** Knows the methods of each path, to list them in the response to a request with another method. */
export class AllowedMethods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = [];

  add(method: string | readonly string[], path: string): void {
    const methods = typeof method === "string" ? [method] : method;
    const source = path
      .split("/")
      .map((part) =>
        part.startsWith(":") ? "[^/]+" : part === "*" ? ".*" : part.replaceAll(".", "\\."),
      )
      .join("/");
    this.#routes.push({ pattern: new RegExp(`^${source}$`), methods });
  }

  find(path: string): string[] {
    const found = this.#routes.filter(({ pattern }) => pattern.test(path));
    return [...new Set(found.flatMap(({ methods }) => methods))].toSorted();
  }
}

/** Returns the methods of a path without HEAD, which GET implies. */
export function getAllowedMethods(routes: AllowedMethods, path: string): string[] {
  return routes.find(path).filter((method) => method !== "HEAD");
}
