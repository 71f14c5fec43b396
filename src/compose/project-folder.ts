import { resolve } from "node:path";

export const REACH_HINT =
  "if you trust the service with it: --accept unsafe; Berth creates no such path";

interface LinkResolver {
  resolveLinks?(path: string): string;
}

/** True for a path in the folder of the project, also after links are followed. */
export function isInProject(files: LinkResolver, folder: string, path: string): boolean {
  const follow = (name: string) => files.resolveLinks?.(name) ?? name;
  const project = follow(resolve(folder));
  const target = follow(path);
  return project !== "/" && (target === project || target.startsWith(`${project}/`));
}
