import { compilePattern, type IgnorePattern } from "../../../../source-tree/ignore-pattern.ts";

/** Read in each folder, the second with the last word. */
export const ignoreFileNames: readonly string[] = [".gitignore", ".berthignore"];

interface IgnoreRule {
  readonly pattern: IgnorePattern;
  /** `!pattern`: what was left out comes back. */
  readonly isException: boolean;
  readonly isForFolders: boolean;
}

/** A line that compiles to more than this is no person's. */
const LINES_MAX = 2_000;

/**
 * The rules of one file with git's meaning: a pattern without a slash is for every folder below, one with
 * a slash for this place alone, one that ends in a slash for folders. `folder` is where the file stands,
 * from the source's top; lines that are no pattern are passed over, as git does.
 */
export class IgnoreFile {
  readonly #rules: readonly IgnoreRule[];

  constructor(folder: string, text: string) {
    const lines = text.replace(/^\u{feff}/u, "").split(/\r?\n/);
    this.#rules = lines.slice(0, LINES_MAX).flatMap((line) => parseRule(folder, line) ?? []);
  }

  /** Undefined where no rule of this file is about it: the file above decides. */
  isIgnored(path: string, isFolder: boolean): boolean | undefined {
    const rule = this.#rules.findLast(
      ({ pattern, isForFolders }) => (isFolder || !isForFolders) && pattern.matches(path),
    );
    return rule && !rule.isException;
  }
}

function parseRule(folder: string, line: string): IgnoreRule | undefined {
  // Spaces at the end count only behind a backslash.
  let written = line.replace(/(?<!\\)[ \t]+$/, "");
  if (written === "" || written.startsWith("#")) return undefined;
  const isException = written.startsWith("!");
  if (isException) written = written.slice(1);
  const isForFolders = written.endsWith("/");
  if (isForFolders) written = written.slice(0, -1);
  const isHere = written.includes("/");
  // Docker's patterns, which do the matching, negate a set by ^ alone.
  const pattern = written.replace(/^\//, "").replaceAll("[!", "[^");
  if (pattern === "") return undefined;
  const above = folder === "" ? "" : `${escapePattern(folder)}/`;
  try {
    return {
      pattern: compilePattern(isHere ? above + pattern : `${above}**/${pattern}`),
      isException,
      isForFolders,
    };
  } catch {
    return undefined;
  }
}

function escapePattern(path: string): string {
  return path.replaceAll(/[\\*?[\]]/g, (special) => `\\${special}`);
}
