import { posix } from "node:path";
import { BerthError } from "../base/errors.ts";

/**
 * One pattern of a `.dockerignore`, with Docker's semantics: `*`, `?` and `[a-z]` as in Go's filepath.Match, `**` for
 * any number of folders, `\` before a literal character.
 *
 * Patterns come from untrusted sources, so they are not converted to regular expressions, which can take minutes for
 * a few `**`. The matcher follows all alternatives at once; its time is bounded by the length of the pattern times
 * the length of the path.
 */
export interface IgnorePattern {
  /** The characters before the first wildcard. */
  readonly literalPrefix: string;
  readonly hasWildcards: boolean;
  matches(path: string): boolean;
}

type Token =
  | { readonly type: "literal"; readonly character: string }
  /** `?` matches one character that is not a slash. */
  | { readonly type: "one" }
  /** `*` matches any number of characters that are not a slash. */
  | { readonly type: "name" }
  /** A `**` before other tokens matches nothing, or any text that ends in a slash. */
  | { readonly type: "folders" }
  /** A `**` at the end of the pattern matches any text. */
  | { readonly type: "rest" }
  | { readonly type: "set"; readonly isNegated: boolean; readonly ranges: readonly Range[] };

type Range = readonly [low: string, high: string];

/** The maximum length of a pattern in characters, which is the maximum length of a path on Linux. */
const LENGTH_MAX = 4096;

/** Compiles a pattern without its leading `!`. Throws `invalid_request` for a pattern that Docker refuses. */
export function compilePattern(text: string): IgnorePattern {
  if (text.length > LENGTH_MAX)
    throw new BerthError("invalid_request", `a pattern of ${text.length} characters is too long`);
  const tokens = tokenize(cleanPattern(text));
  const firstWildcard = tokens.findIndex((token) => token.type !== "literal");
  const prefix = firstWildcard === -1 ? tokens : tokens.slice(0, firstWildcard);
  const literalPrefix = prefix
    .map((token) => (token.type === "literal" ? token.character : ""))
    .join("");
  return {
    literalPrefix,
    hasWildcards: firstWildcard !== -1,
    matches: (path) =>
      firstWildcard === -1
        ? path === literalPrefix
        : path.startsWith(literalPrefix) &&
          matchesTokens(tokens.slice(firstWildcard), path.slice(literalPrefix.length)),
  };
}

/** Normalises a pattern like Go's filepath.Clean: `./a//b/../c/` becomes `a/c`. A leading slash is ignored. */
function cleanPattern(text: string): string {
  const cleaned = posix.normalize(text);
  const withoutEnd = cleaned.length > 1 ? cleaned.replace(/\/$/, "") : cleaned;
  return withoutEnd.length > 1 ? withoutEnd.replace(/^\//, "") : withoutEnd;
}

function tokenize(pattern: string): readonly Token[] {
  const characters = Array.from(pattern);
  const tokens: Token[] = [];
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? "";
    if (character === "*" && characters[at + 1] === "*") {
      const isLeading = at === 0;
      at += 1;
      const hasSlash = characters[at + 1] === "/";
      if (hasSlash) at += 1;
      const rest = characters.slice(at + 1);
      // Docker reads `**name`, without other special characters, as "any path that ends in name".
      const isSuffix = isLeading && !hasSlash && !rest.some((it) => "*?[]\\".includes(it));
      tokens.push({ type: rest.length === 0 || isSuffix ? "rest" : "folders" });
    } else if (character === "*") {
      tokens.push({ type: "name" });
    } else if (character === "?") {
      tokens.push({ type: "one" });
    } else if (character === "\\") {
      at += 1;
      tokens.push({ type: "literal", character: characters[at] ?? throwMalformed(pattern) });
    } else if (character === "[") {
      const { set, end } = readSet(characters, at, pattern);
      tokens.push(set);
      at = end;
    } else {
      tokens.push({ type: "literal", character });
    }
  }
  return tokens;
}

function readSet(
  characters: readonly string[],
  start: number,
  pattern: string,
): { set: Token; end: number } {
  let at = start + 1;
  const isNegated = characters[at] === "^";
  if (isNegated) at += 1;
  const ranges: Range[] = [];
  const take = (): string => {
    const isEscaped = characters[at] === "\\";
    if (isEscaped) at += 1;
    const character = characters[at];
    if (character === undefined || (!isEscaped && (character === "-" || character === "]")))
      return throwMalformed(pattern);
    at += 1;
    return character;
  };
  do {
    const low = take();
    let high = low;
    if (characters[at] === "-") {
      at += 1;
      high = take();
    }
    ranges.push([low, high]);
  } while (characters[at] !== "]");
  return { set: { type: "set", isNegated, ranges }, end: at };
}

function throwMalformed(pattern: string): never {
  throw new BerthError("invalid_request", `"${pattern}" is not a pattern`, {
    hint: "close every [, and write \\[ or \\\\ for a literal character",
  });
}

/** The states of a position in the pattern during a match: not reached, inside a `**` before its slash, or reached. */
const UNREACHED = 0;
const IN_FOLDERS = 1;
const REACHED = 2;

function matchesTokens(tokens: readonly Token[], text: string): boolean {
  let states = new Uint8Array(tokens.length + 1);
  states[0] = REACHED;
  skipEmpty(tokens, states);
  for (const character of text) {
    const next = new Uint8Array(tokens.length + 1);
    let isAlive = false;
    for (let at = 0; at < tokens.length; at += 1) {
      const token = tokens[at];
      if (states[at] === UNREACHED || token === undefined) continue;
      if (token.type === "rest" || (token.type === "name" && character !== "/")) next[at] = REACHED;
      else if (token.type === "folders") {
        next[at] = Math.max(next[at] ?? UNREACHED, IN_FOLDERS);
        if (character === "/") next[at + 1] = REACHED;
      } else if (token.type !== "name" && accepts(token, character)) next[at + 1] = REACHED;
      else continue;
      isAlive = true;
    }
    if (!isAlive) return false;
    skipEmpty(tokens, next);
    states = next;
  }
  return states[tokens.length] === REACHED;
}

function accepts(token: Exclude<Token, { type: "rest" | "name" | "folders" }>, character: string) {
  if (token.type === "literal") return token.character === character;
  if (token.type === "one") return character !== "/";
  const code = character.codePointAt(0) ?? 0;
  const isIn = token.ranges.some(
    ([low, high]) => code >= (low.codePointAt(0) ?? 0) && code <= (high.codePointAt(0) ?? 0),
  );
  return isIn !== token.isNegated;
}

/** Moves past wildcards that may match an empty text. */
function skipEmpty(tokens: readonly Token[], states: Uint8Array): void {
  for (const [at, token] of tokens.entries()) {
    const mayBeEmpty = token.type === "name" || token.type === "rest" || token.type === "folders";
    if (mayBeEmpty && states[at] === REACHED) states[at + 1] = REACHED;
  }
}
