import { lstatSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { IgnoreFile, ignoreFileNames } from "./ignore-file.ts";
import { isSecretName } from "./secret-detection.ts";

/** Folders that tools generate. */
const generatedFolders = new Set(["node_modules", "bower_components", "__pycache__", "lost+found"]);
/** A larger ignore file is not read. */
const IGNORE_BYTES_MAX = 64 * 1024;

/**
 * The rules for the files of a source that are not indexed: hidden files and folders, secrets, generated folders, and the
 * rules of ignore files. No rule can include secrets again.
 */
export class SourceRules {
  readonly #root: string;
  readonly #files = new Map<string, readonly IgnoreFile[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** The folder of `path` must not be excluded itself. `path` is relative to the source and contains `/`. */
  isExcluded(path: string, isFolder: boolean): boolean {
    const name = posix.basename(path);
    if (name.startsWith(".") || isSecretName(name)) return true;
    if (isFolder && generatedFolders.has(name)) return true;
    // The nearest ignore file with a matching rule decides.
    for (let folder = posix.dirname(path); ; folder = posix.dirname(folder)) {
      for (const file of this.#filesIn(folder === "." ? "" : folder).toReversed()) {
        const isIgnored = file.isIgnored(path, isFolder);
        if (isIgnored !== undefined) return isIgnored;
      }
      if (folder === ".") return false;
    }
  }

  /** Returns true also if a folder above is excluded. */
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
