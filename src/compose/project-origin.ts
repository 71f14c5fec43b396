import { basename, dirname, join, relative } from "node:path";
import { hashJson } from "../base/canonical-json.ts";
import type { ComposeFileReader } from "./load-project.ts";

/**
 * Returns the origin of the Apps of a project: its name, and a hash of the place of its first file, so that the Apps of
 * two files with one name are never taken for those of the same project. In a repository with a remote the place is the
 * remote and the path in it, so that it is the same in each clone. A project from standard input has only its name.
 */
export function getProjectOrigin(name: string, file: string, files: ComposeFileReader): string {
  if (basename(file) === "-") return `import:${name}`;
  return `import:${name}@${hashJson(locateFile(file, files)).slice(0, 12)}`;
}

/** The maximum number of folders above the file that are searched for a repository. */
const FOLDERS_MAX = 64;

function locateFile(file: string, files: ComposeFileReader): string {
  const path = files.resolveLinks?.(file) ?? file;
  let folder = dirname(path);
  for (let count = 0; count < FOLDERS_MAX; count += 1) {
    const config = files.read(join(folder, ".git", "config"));
    if ("text" in config) {
      const remote = findRemote(config.text);
      return remote === undefined ? path : `${remote}/${relative(folder, path)}`;
    }
    const parent = dirname(folder);
    if (parent === folder) break;
    folder = parent;
  }
  return path;
}

/** Returns the host and the path of the remote `origin`, which are the same over https and ssh. */
function findRemote(config: string): string | undefined {
  const section = config.split(/^\s*\[/m).find((text) => text.startsWith('remote "origin"]'));
  const url = /^\s*url\s*=\s*(\S+)\s*$/m.exec(section ?? "")?.[1];
  return url
    ?.replace(/^[a-z+]+:\/\//, "")
    .replace(/^[^/@]*@/, "")
    .replace(":", "/")
    .replace(/(\.git)?\/*$/, "");
}
