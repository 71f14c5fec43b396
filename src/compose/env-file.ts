import { interpolate, type Variables } from "./interpolate-variables.ts";

export interface EnvFileEntry {
  readonly key: string;
  /** The value; undefined for a line with only a name, whose value comes from the environment. */
  readonly value: string | undefined;
  /** The line number, counted from 1. */
  readonly line: number;
  readonly unsetVariables: readonly string[];
}

export interface EnvFile {
  readonly entries: readonly EnvFileEntry[];
  readonly problems: readonly { readonly line: number; readonly message: string }[];
}

/** The maximum total length of the values of a file after their variables are expanded, in characters. */
const CHARACTERS_MAX = 8 * 1_048_576;

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/**
 * Parses an env file: `KEY=value`, `export KEY=value`, quoted values (also of several lines) and comments. Expands
 * variables, except in single quotes; variables of earlier lines take precedence over `outerVariables`. With `isRaw`,
 * which stands for `format: raw`, everything after the equals sign is the value.
 */
export function parseEnvFile(text: string, outerVariables: Variables, isRaw = false): EnvFile {
  const entries: EnvFileEntry[] = [];
  const problems: { line: number; message: string }[] = [];
  const known = new Map(outerVariables);
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  let characters = 0;
  for (let index = 0; index < lines.length; index += 1) {
    const line = index + 1;
    if (characters > CHARACTERS_MAX) {
      problems.push({
        line,
        message: "the file is longer than 8 MiB after its variables are expanded",
      });
      break;
    }
    const written = lines[index] ?? "";
    if (/^\s*(#|$)/.test(written)) continue;
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*(?:[=:]\s?(.*))?$/s.exec(written);
    if (!match?.[1]) {
      problems.push({ line, message: "the line is not of the form KEY=value" });
      continue;
    }
    const key = match[1];
    let rest = match[2];
    if (rest === undefined) {
      entries.push({ key, value: undefined, line, unsetVariables: [] });
      continue;
    }
    const quote = isRaw ? undefined : /^\s*(["'])/.exec(rest)?.[1];
    if (quote === undefined) {
      const value = isRaw ? written.slice(written.indexOf("=") + 1) : stripComment(rest);
      add(key, value, line, !isRaw);
      continue;
    }
    rest = rest.trimStart().slice(1);
    while (findQuoteEnd(rest, quote) === -1 && index + 1 < lines.length) {
      index += 1;
      rest += `\n${lines[index] ?? ""}`;
    }
    const end = findQuoteEnd(rest, quote);
    if (end === -1) {
      problems.push({ line, message: `the quotes of ${key} are not closed` });
      continue;
    }
    const body = rest.slice(0, end);
    add(
      key,
      quote === '"' ? resolveEscapes(body) : body.replaceAll("\\'", "'"),
      line,
      quote === '"',
    );
  }
  return { entries, problems };

  function add(key: string, value: string, line: number, shouldExpand: boolean): void {
    const expanded = shouldExpand ? interpolate(value, known) : { text: value, unsetVariables: [] };
    // A value whose variables cannot be expanded is kept, although Compose refuses it: a dollar sign in an env file is
    // nearly always a part of a password.
    const result = expanded.failure === undefined ? expanded.text : value;
    if (expanded.failure !== undefined)
      problems.push({ line, message: `${key}: ${expanded.failure}` });
    characters += result.length;
    known.set(key, result);
    entries.push({ key, value: result, line, unsetVariables: expanded.unsetVariables });
  }
}

function stripComment(text: string): string {
  return text.replace(/(^|\s)#.*$/s, "").trim();
}

function findQuoteEnd(text: string, quote: string): number {
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}

/**
 * Resolves escapes in a value. `\$` becomes `$$`, which the later expansion of variables turns into one dollar sign.
 */
function resolveEscapes(text: string): string {
  return text.replaceAll(/\\(.)/gs, (all, letter: string) => {
    if (letter === "$") return "$$";
    if (letter === '"' || letter === "\\") return letter;
    return escapes[letter] ?? all;
  });
}
