import { resolve } from "node:path";

export const REACH_HINT =
  "if you trust the service with this path, allow it with --accept unsafe; Berth does not create the path if it is missing";

interface LinkResolver {
  resolveLinks?(path: string): string;
}

/** Returns true if the path is in the folder of the project after all symbolic links are resolved. */
export function isInProject(files: LinkResolver, folder: string, path: string): boolean {
  const follow = (name: string) => files.resolveLinks?.(name) ?? name;
  const project = follow(resolve(folder));
  const target = follow(path);
  return project !== "/" && (target === project || target.startsWith(`${project}/`));
}
