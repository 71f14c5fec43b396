import { basename, extname } from "node:path";
import type { ComposeProject } from "./load-project.ts";

/**
 * Returns the name of a project: its `name`, otherwise the name of the folder of a file that is called compose.yaml
 * or docker-compose.yml, otherwise the name of the file. A project from standard input without a name is identified
 * by its content, so that two such projects are never treated as the same project.
 */
export function getProjectName(project: ComposeProject, files: readonly string[]): string {
  const [first = ""] = files;
  const file = basename(first, extname(first));
  const given = project.name?.text ?? "";
  if (given === "" && file === "-") return `stdin-${project.digest}`;
  const isStandard = /^(docker-)?compose$/.test(file);
  return normalize(given) || normalize(isStandard ? basename(project.folder) : file) || "default";
}

/** Returns the name by Compose's rules: `name`, or the name of the folder. */
export function getComposeProjectName({ name, folder }: ComposeProject): string {
  const given = name?.text ?? "";
  return normalize(given === "" ? basename(folder) : given);
}

function normalize(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, "")
    .replace(/^[_-]+/, "");
}
