/**
 * Returns a chain of dependencies that leads back to the App, in order; undefined if there is none. `listDependencies`
 * returns the `dependsOn` of another App, and an empty list for an App that does not exist.
 */
export function findDependencyCycle(
  name: string,
  dependsOn: readonly string[],
  listDependencies: (app: string) => readonly string[],
): readonly string[] | undefined {
  const seen = new Set<string>();
  const visit = (
    next: readonly string[],
    path: readonly string[],
  ): readonly string[] | undefined => {
    for (const app of next) {
      if (app === name) return [...path, name];
      if (seen.has(app)) continue;
      seen.add(app);
      const found = visit(listDependencies(app), [...path, app]);
      if (found) return found;
    }
    return undefined;
  };
  return visit(dependsOn, [name]);
}
