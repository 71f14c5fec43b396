import { compilePattern, type IgnorePattern } from "../../../../source-tree/ignore-pattern.ts";

/** The names of the ignore files that are read in each folder. Rules of the second file override those of the first. */
export const ignoreFileNames: readonly string[] = [".gitignore", ".berthignore"];

interface IgnoreRule {
  readonly pattern: IgnorePattern;
  /** True for `!pattern`, which includes ignored files again. */
  readonly isException: boolean;
  readonly isForFolders: boolean;
}

/** Lines of an ignore file after this number are not read. */
const LINES_MAX = 2_000;

/**
 * The rules of one ignore file, as git defines them: a pattern without a slash matches in all folders below, a pattern
 * with a slash is relative to the file's folder, and a trailing slash restricts it to folders. `folder` is the file's
 * folder, relative to the source. Invalid lines are ignored, as in git.
 */
export class IgnoreFile {
  readonly #rules: readonly IgnoreRule[];

  constructor(folder: string, text: string) {
    const lines = text.replace(/^\u{feff}/u, "").split(/\r?\n/);
    this.#rules = lines.slice(0, LINES_MAX).flatMap((line) => parseRule(folder, line) ?? []);
  }

  /**
   * Returns true if the last matching rule ignores the path, and false if it is an exception. Returns undefined if no
   * rule matches; the ignore file of the parent folder then decides.
   */
  isIgnored(path: string, isFolder: boolean): boolean | undefined {
    const rule = this.#rules.findLast(
      ({ pattern, isForFolders }) => (isFolder || !isForFolders) && pattern.matches(path),
    );
    return rule && !rule.isException;
  }
}

function parseRule(folder: string, line: string): IgnoreRule | undefined {
  // Trailing spaces belong to the pattern only if a backslash precedes them.
  let written = line.replace(/(?<!\\)[ \t]+$/, "");
  if (written === "" || written.startsWith("#")) return undefined;
  const isException = written.startsWith("!");
  if (isException) written = written.slice(1);
  const isForFolders = written.endsWith("/");
  if (isForFolders) written = written.slice(0, -1);
  const isHere = written.includes("/");
  // Git also accepts `!` to negate a set of characters. It is replaced by `^`, because the library that matches the
  // patterns follows Docker, which knows only `^`.
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
