import { lstatSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { IgnoreFile, ignoreFileNames } from "./ignore-file.ts";
import { isSecretName } from "./secret-detection.ts";

/** Made by tools, in numbers, and never written by a person. */
const generatedFolders = new Set(["node_modules", "bower_components", "__pycache__", "lost+found"]);
/** Rules of this size take no person to write. */
const IGNORE_BYTES_MAX = 64 * 1024;

/**
 * What of a source is left out: hidden files and folders, secrets, what tools make, and what the ignore
 * files of its folders say. Secrets come back by no rule.
 */
export class SourceRules {
  readonly #root: string;
  readonly #files = new Map<string, readonly IgnoreFile[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Of something in a folder that is itself not left out. `path` is from the source's top, with `/`. */
  isExcluded(path: string, isFolder: boolean): boolean {
    const name = posix.basename(path);
    if (name.startsWith(".") || isSecretName(name)) return true;
    if (isFolder && generatedFolders.has(name)) return true;
    // The nearest file that says anything decides.
    for (let folder = posix.dirname(path); ; folder = posix.dirname(folder)) {
      for (const file of this.#filesIn(folder === "." ? "" : folder).toReversed()) {
        const verdict = file.isIgnored(path, isFolder);
        if (verdict !== undefined) return verdict;
      }
      if (folder === ".") return false;
    }
  }

  /** True also where a folder above it is left out. */
  isPathExcluded(path: string, isFolder: boolean): boolean {
    const parts = path.split("/");
    return parts.some((_, at) =>
      this.isExcluded(parts.slice(0, at + 1).join("/"), isFolder || at < parts.length - 1),
    );
  }

  /** The ignore files are read anew from now on. */
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
