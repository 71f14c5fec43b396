import { BerthError } from "../base/errors.ts";
import { compilePattern, type IgnorePattern } from "./ignore-pattern.ts";

/** The ignore rules for a folder without `.dockerignore`; docs/builds.md explains each of them. */
const defaultPatterns = [
  "**/node_modules",
  "**/.venv",
  "**/__pycache__",
  "**/.env",
  "**/.env.local",
  "**/.env.*.local",
  "**/.DS_Store",
  "**/.hg",
  "**/.svn",
];

interface Rule {
  readonly pattern: IgnorePattern;
  /** True for `!pattern`, which includes ignored paths again. */
  readonly isException: boolean;
}

/** The matches of one path: for each rule, true if the rule matches the path or a folder that contains the path. */
export type RuleMatches = readonly boolean[];

/**
 * The rules of one `.dockerignore`, with Docker's semantics: the last rule that matches a path, or a folder that
 * contains the path, decides. (The usual package, @balena/dockerignore, does not escape `+`, `(` and `{` in its
 * regular expressions, so it fails for a name such as `(app)/+page.ts`.)
 */
export class IgnoreRules {
  readonly #rules: readonly Rule[];

  private constructor(rules: readonly Rule[]) {
    this.#rules = rules;
  }

  static createDefault(): IgnoreRules {
    return IgnoreRules.parse(defaultPatterns.join("\n"), "the standard rules");
  }

  /**
   * Parses a file with ignore rules. Throws `invalid_request`, with `file` and the line, for rules that Docker
   * refuses.
   */
  static parse(text: string, file: string): IgnoreRules {
    const rules: Rule[] = [];
    const lines = text.replace(/^\u{feff}/u, "").split(/\r?\n/);
    for (const [index, line] of lines.entries()) {
      // As with Docker, a # begins a comment only in the first column.
      const written = line.startsWith("#") ? "" : line.trim();
      if (written === "") continue;
      const isException = written.startsWith("!");
      const pattern = isException ? written.slice(1).trim() : written;
      try {
        if (pattern.replaceAll("/", "") === "" && isException)
          throw new BerthError("invalid_request", '"!" must be followed by a pattern');
        rules.push({ pattern: compilePattern(pattern), isException });
      } catch (error) {
        if (!(error instanceof BerthError)) throw error;
        throw new BerthError(error.code, `${file}:${index + 1}: ${error.message}`, {
          hint: error.hint,
        });
      }
    }
    return new IgnoreRules(rules);
  }

  /** Returns a copy of the rules that never ignores the given paths. */
  withExceptions(paths: readonly string[]): IgnoreRules {
    const kept = paths.map((path) => ({
      pattern: compilePattern(path.replaceAll(/[\\*?[\]]/g, (special) => `\\${special}`)),
      isException: true,
    }));
    return new IgnoreRules([...this.#rules, ...kept]);
  }

  /**
   * Checks if a path is ignored. `folder` contains the matches that an earlier call returned for the folder of the
   * path.
   */
  check(
    path: string,
    folder: RuleMatches | undefined,
  ): { isIgnored: boolean; matches: RuleMatches } {
    let isIgnored = false;
    const matches = this.#rules.map(({ pattern, isException }, at) => {
      const isMatch = folder?.[at] === true || pattern.matches(path);
      if (isMatch) isIgnored = !isException;
      return isMatch;
    });
    return { isIgnored, matches };
  }

  /** Returns false if no exception can match below an ignored folder. Such a folder need not be read. */
  canKeepBelow(folder: string): boolean {
    const inside = `${folder}/`;
    return this.#rules.some(
      ({ pattern, isException }) =>
        isException &&
        (pattern.literalPrefix.startsWith(inside) ||
          (pattern.hasWildcards && inside.startsWith(pattern.literalPrefix))),
    );
  }
}
