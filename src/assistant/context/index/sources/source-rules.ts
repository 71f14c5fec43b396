import { lstatSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { IgnoreFile, ignoreFileNames } from "./ignore-file.ts";
import { isSecretName } from "./secret-detection.ts";

/** Names of folders that tools generate, such as `node_modules`. */
const generatedFolders = new Set(["node_modules", "bower_components", "__pycache__", "lost+found"]);
/** An ignore file larger than this is not read. */
const IGNORE_BYTES_MAX = 64 * 1024;

/**
 * Decides which files of a source are not indexed: hidden files and folders, secrets, generated folders, and files
 * that an ignore file excludes. No rule of an ignore file can include secrets again.
 */
export class SourceRules {
  readonly #root: string;
  readonly #files = new Map<string, readonly IgnoreFile[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Returns true if a rule excludes the path itself. `path` is relative to the source and uses `/`; its folder must
   * not be excluded.
   */
  isExcluded(path: string, isFolder: boolean): boolean {
    const name = posix.basename(path);
    if (name.startsWith(".") || isSecretName(name)) return true;
    if (isFolder && generatedFolders.has(name)) return true;
    // Among the ignore files that have a matching rule, the one in the nearest folder decides.
    for (let folder = posix.dirname(path); ; folder = posix.dirname(folder)) {
      for (const file of this.#filesIn(folder === "." ? "" : folder).toReversed()) {
        const isIgnored = file.isIgnored(path, isFolder);
        if (isIgnored !== undefined) return isIgnored;
      }
      if (folder === ".") return false;
    }
  }

  /** Returns true if a rule excludes the path or one of its parent folders. */
  isPathExcluded(path: string, isFolder: boolean): boolean {
    const parts = path.split("/");
    return parts.some((_, at) =>
      this.isExcluded(parts.slice(0, at + 1).join("/"), isFolder || at < parts.length - 1),
    );
  }

  /** Makes the next check read the ignore files again. */
  clearCache(): void {
    this.#files.clear();
  }

  #filesIn(folder: string): readonly IgnoreFile[] {
    const known = this.#files.get(folder);
    if (known) return known;
    const read = ignoreFileNames.flatMap((name) => {
      const text = this.#read(join(this.#root, folder, name));
      return text === undefined ? [] : [new IgnoreFile(folder, text)];
    });
    this.#files.set(folder, read);
    return read;
  }

  #read(file: string): string | undefined {
    try {
      const state = lstatSync(file);
      if (!state.isFile() || state.size > IGNORE_BYTES_MAX) return undefined;
      return readFileSync(file, "utf8");
    } catch {
      return undefined;
    }
  }
}
