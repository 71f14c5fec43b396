import { BerthError } from "../base/errors.ts";
import { compilePattern, type IgnorePattern } from "./ignore-pattern.ts";

/** What is left out of a folder that has no `.dockerignore`; docs/builds.md has the reasons. */
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
  /** `!pattern`: what was left out comes back. */
  readonly isException: boolean;
}

/** Which rules a folder met already: what is below it meets them too. One value for each rule. */
export type RuleMatches = readonly boolean[];

/**
 * The rules of one `.dockerignore`, with Docker's meaning: the last rule that matches a path or one of
 * its folders decides. (The package that dockerode's users take, @balena/dockerignore, leaves `+`, `(`
 * and `{` as they are in a regular expression, so that a name such as `(app)/+page.ts` breaks it.)
 */
export class IgnoreRules {
  readonly #rules: readonly Rule[];

  private constructor(rules: readonly Rule[]) {
    this.#rules = rules;
  }

  static createDefault(): IgnoreRules {
    return IgnoreRules.parse(defaultPatterns.join("\n"), "the standard rules");
  }

  /** Throws `invalid_request` naming `file` and the line where Docker would refuse it. */
  static parse(text: string, file: string): IgnoreRules {
    const rules: Rule[] = [];
    const lines = text.replace(/^\u{feff}/u, "").split(/\r?\n/);
    for (const [index, line] of lines.entries()) {
      // A # is a comment in the first column only, and a part of the name elsewhere, as with Docker.
      const written = line.startsWith("#") ? "" : line.trim();
      if (written === "") continue;
      const isException = written.startsWith("!");
      const pattern = isException ? written.slice(1).trim() : written;
      try {
        if (pattern.replaceAll("/", "") === "" && isException)
          throw new BerthError("invalid_request", '"!" needs a pattern behind it');
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

  /** The same rules, and these paths are never left out. */
  withExceptions(paths: readonly string[]): IgnoreRules {
    const kept = paths.map((path) => ({
      pattern: compilePattern(path.replaceAll(/[\\*?[\]]/g, (special) => `\\${special}`)),
      isException: true,
    }));
    return new IgnoreRules([...this.#rules, ...kept]);
  }

  /** Whether a path is left out. `folder` is what this method said of the folder that it is in. */
  check(path: string, folder: RuleMatches | undefined): { isIgnored: boolean; met: RuleMatches } {
    let isIgnored = false;
    const matches = this.#rules.map(({ pattern, isException }, at) => {
      const isMatch = folder?.[at] === true || pattern.matches(path);
      if (isMatch) isIgnored = !isException;
      return isMatch;
    });
    return { isIgnored, met: matches };
  }

  /** False where nothing below a folder that is left out can come back, so that nobody need look. */
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
