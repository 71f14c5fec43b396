import { describe, expect, test } from "vitest";
import { IgnoreRules } from "../../../src/source-tree/ignore-rules.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";

/** Checks a path from its topmost folder down, as a walk through the folders does. */
function isIgnored(text: string | readonly string[], path: string): boolean {
  const rules = IgnoreRules.parse(
    typeof text === "string" ? text : text.join("\n"),
    ".dockerignore",
  );
  const parts = path.split("/");
  let answer = rules.check(parts[0] ?? "", undefined);
  for (let depth = 2; depth <= parts.length; depth += 1)
    answer = rules.check(parts.slice(0, depth).join("/"), answer.matches);
  return answer.isIgnored;
}

// The expected values are the results of `docker build` of Docker 28.
test.each<[pattern: string, path: string, ignored: boolean]>([
  ["*", "file", true],
  ["*.md", "README.md", true],
  ["*.md", "docs/README.md", false],
  ["docs", "docs/a/b", true],
  ["docs/", "docs/a", true],
  ["/docs", "docs/a", true],
  ["./docs", "docs/a", true],
  ["a//b/../c", "a/c", true],
  ["../docs", "docs", false],
  ["docs", "old/docs", false],
  ["docs/*", "docs/a/b", true],
  ["*/docs", "old/docs/a", true],
  ["*/docs", "very/old/docs", false],
  ["**", "a/b", true],
  ["**/docs", "docs", true],
  ["**/docs", "very/old/docs/a", true],
  ["**/docs", "olddocs", false],
  ["**docs", "olddocs", true],
  ["**.md", "a/b.md", true],
  ["a/**", "a", false],
  ["a/**", "a/b/c", true],
  ["a/**/b", "a/b", true],
  ["a/**/b", "a/x/y/b", true],
  ["a/**/b", "a/xb", false],
  ["a**b", "axb", false],
  ["a**/*.txt", "a/dir/dir/file.txt", true],
  ["**/*.txt", "file.txt", true],
  ["**/**/*.txt", "x/y/file.txt", true],
  ["a?c", "abc", true],
  ["a?c", "a/c", false],
  ["a?c", "a\u{263a}c", true],
  ["a[b-d]e", "ace", true],
  ["a[b-d]e", "aae", false],
  ["a[^b-d]e", "aze", true],
  ["[\\]x]", "]", true],
  ["a\\*b", "a*b", true],
  ["a\\*b", "axb", false],
  [".*", ".env", true],
  [".*", "env", false],
  ["a.b", "axb", false],
  ["(app)/+page.ts", "(app)/+page.ts", true],
  ["x{1}|$", "x{1}|$", true],
  ["ABC", "abc", false],
  ["# not a name", "# not a name", false],
  [" # a name", "# a name", true],
  ["  spaced  ", "spaced", true],
  ["\u{feff}first", "first", true],
  ["crlf\r\nother", "crlf", true],
])("the pattern %j ignores the path %j: %j", (pattern, path, ignored) => {
  expect(isIgnored(pattern, path)).toBe(ignored);
});

describe("exceptions in ignore files", () => {
  test.each<[patterns: readonly string[], path: string, ignored: boolean]>([
    [["*.go", "!main.go"], "main.go", false],
    [["!main.go", "*.go"], "main.go", true],
    [["docs", "!docs/README.md"], "docs/README.md", false],
    [["docs", "!docs/README.md"], "docs/other", true],
    [["**", "!util/web"], "util/web/a", false],
    [["**", "!util/web", "util/web/a"], "util/web/a", true],
    [["a", "! /a/b "], "a/b", false],
    [["*", "!**/keep"], "a/keep", false],
  ])("with the patterns %j, the path %j is ignored: %j", (patterns, path, ignored) => {
    expect(isIgnored(patterns, path)).toBe(ignored);
  });

  test.each([
    [["docs", "!docs/a/README.md"], "docs/a", true],
    [["docs", "!docs/a/README.md"], "docs/b", false],
    [["docs", "!other"], "docs", false],
    [["*", "!**/keep"], "any/folder", true],
    [["*", "!a/*/keep"], "a/b", true],
    [["*", "!a/*/keep"], "b", false],
    [["docs"], "docs", false],
  ])("with the patterns %j, a path below %j may be included: %j", (patterns, folder, may) => {
    const rules = IgnoreRules.parse(patterns.join("\n"), ".dockerignore");
    expect(rules.canKeepBelow(folder)).toBe(may);
  });
});

test("withExceptions() includes exactly the given paths, and does not treat them as patterns", () => {
  const rules = IgnoreRules.parse("**", ".dockerignore").withExceptions(["Dockerfile.[x]*"]);
  expect(rules.check("Dockerfile.[x]*", undefined).isIgnored).toBe(false);
  expect(rules.check("Dockerfile.x1", undefined).isIgnored).toBe(true);
});

test.each(["[", "a[", "[]a]", "[^", "[-x]", "[x-]", "a\\", "!", "! ", "!/"])(
  "the invalid pattern %j is refused, and the error names the file and the line",
  (pattern) => {
    const error = catchBerthError(() => IgnoreRules.parse(`ok\n${pattern}`, "web.dockerignore"));
    expect(error.code).toBe("invalid_request");
    expect(error.message).toMatch(/^web\.dockerignore:2: /);
  },
);

test("a malicious pattern is matched in linear time", () => {
  expect(isIgnored(`${"**/a*".repeat(40)}x`, `${"a/".repeat(100)}a`)).toBe(false);
});

test("a pattern that is longer than any path is refused", () => {
  const error = catchBerthError(() => IgnoreRules.parse("*".repeat(5000), ".dockerignore"));
  expect(error.message).toContain(".dockerignore:1: a pattern of 5000 characters");
});

test("the default rules ignore dependencies, caches and env files", () => {
  const rules = IgnoreRules.createDefault();
  const out = [
    "node_modules",
    "web/node_modules",
    ".env",
    ".env.local",
    "a/.env.test.local",
    ".venv",
  ];
  const kept = ["src", "env", ".env.example", ".env.production", "dist", "vendor", ".npmrc"];
  expect(out.filter((path) => !rules.check(path, undefined).isIgnored)).toEqual([]);
  expect(kept.filter((path) => rules.check(path, undefined).isIgnored)).toEqual([]);
});
