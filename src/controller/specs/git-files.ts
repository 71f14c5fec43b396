import { randomBytes } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Matches the names of temporary files. They begin with a dot, so that a half-written file is never read as a spec. */
const TEMPORARY = /^\.berth-git\.[0-9a-f]{12}\.tmp$/;

export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}

export function createTemporaryName(): string {
  return `.berth-git.${randomBytes(6).toString("hex")}.tmp`;
}

/** Writes a file atomically: readers see the old or the new content, even after a crash. */
export async function writeAtomically(path: string, content: string | Uint8Array): Promise<void> {
  const temporary = join(dirname(path), createTemporaryName());
  try {
    const file = await open(temporary, "wx", 0o644);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** Derives the name of a folder from the URL of a repository: `https://host/team/specs.git` -> `specs`. */
export function deriveFolderName(url: string): string {
  const path = url.replace(/[?#].*$/s, "").replace(/[/\\]+$/, "");
  const last = basename(path.replaceAll(":", "/")).replace(/\.git$/, "");
  const name = last.replaceAll(/[^A-Za-z0-9._-]/g, "-").replace(/^[.-]+/, "");
  return name === "" ? "git" : name.slice(0, 100);
}
