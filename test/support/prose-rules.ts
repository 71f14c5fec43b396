import type { SourceFile } from "./tidy-rules.ts";

/**
 * The rules of plain English that a program can check, in comments, titles of tests and Markdown. A rule bans a wording
 * that engineers stumble over, and names the wording to use in its place.
 */

interface WordRule {
  readonly pattern: RegExp;
  readonly instead: string;
}

const words: readonly WordRule[] = [
  { pattern: /\bwhoever\b/i, instead: "the caller, the user, another process" },
  { pattern: /\b(?:somebody|nobody)\b/i, instead: "the caller, the user, no process, no one" },
  { pattern: /\bby way of\b/i, instead: "through, via" },
  { pattern: /\banew\b/i, instead: "again" },
  { pattern: /\bso many\b/i, instead: "n, that many, a limited number" },
  { pattern: /\bbeside\b/i, instead: "next to, in addition to, concurrently with" },
  { pattern: /\bworked out\b/i, instead: "computed, derived" },
  { pattern: /\bto be had\b|\b(?:can|could|may) be had\b/i, instead: "available" },
  { pattern: /\bput right\b/i, instead: "fixed, repaired, corrected" },
  { pattern: /\bin another's place\b|\bin its stead\b/i, instead: "instead of" },
  {
    pattern: /\b(?:undefined|null|true|false|empty|none|nothing|zero|throws|rejects) where\b/i,
    instead: "if, when",
  },
  { pattern: /\bof a person's\b/i, instead: "the user's, interactive" },
  { pattern: /\ba talk\b/i, instead: "a chat" },
];

/**
 * Matches a text that begins like a fragment of a sentence. If SENTENCE matches the text too, it is a sentence
 * nevertheless.
 */
const FRAGMENT = /^(?:Of|By|As|What|Whether|Who|Whose|Whom|Where|To)\b/;
const SENTENCE =
  /^(?:By default\b|As a result\b|As [^,.]{3,60}, |By [a-z]+ing\b|To [a-z]+ [^.]*, |What [^,.]* (?:is|are|was|were|has|have|does|did|happens|cannot|can|must|may|needs|stays|goes|remains|counts|matters)\b)/;

export interface Prose {
  readonly path: string;
  readonly line: number;
  readonly text: string;
  /** True if the text is the beginning of a doc comment, whose first sentence says what the thing is or does. */
  readonly opens: boolean;
}

/**
 * Returns the violations of the wording rules in the comments and test titles of a TypeScript file, or in the
 * paragraphs of a Markdown file.
 */
export function proseProblems(file: SourceFile): string[] {
  return proseOf(file).flatMap(({ path, line, text, opens }) => {
    const problems: string[] = [];
    for (const { pattern, instead } of words) {
      const match = pattern.exec(text);
      if (match) problems.push(`${path}:${line} "${match[0]}": write ${instead}`);
    }
    if (opens && FRAGMENT.test(text) && !SENTENCE.test(text)) {
      const start = text.split(" ").slice(0, 6).join(" ");
      problems.push(
        `${path}:${line} "${start} ...": begin with a noun phrase or a verb, not with a fragment`,
      );
    }
    return problems;
  });
}

export function proseOf(file: SourceFile): Prose[] {
  return file.path.endsWith(".md") ? markdownProse(file) : commentsAndTitles(file);
}

/** Returns the paragraphs and headings outside of code fences, and omits code spans and the texts of links to files. */
function markdownProse({ path, text }: SourceFile): Prose[] {
  const prose: Prose[] = [];
  let fenced = false;
  for (const [index, line] of text.split("\n").entries()) {
    if (/^\s*(?:```|~~~)/.test(line)) {
      fenced = !fenced;
      continue;
    }
    if (fenced || line.trim() === "") continue;
    const plain = line.replaceAll(/`[^`]*`/g, "`").replace(/^[\s#>*-]+/, "");
    prose.push({ path, line: index + 1, text: plain, opens: false });
  }
  return prose;
}

function commentsAndTitles({ path, text }: SourceFile): Prose[] {
  const prose: Prose[] = [];
  const at = (index: number) => text.slice(0, index).split("\n").length;
  const add = (index: number, found: string, opens: boolean) => {
    const plain = found
      .replaceAll(/`[^`]*`/g, "`")
      .replaceAll(/\s+/g, " ")
      .trim();
    if (plain !== "") prose.push({ path, line: at(index), text: plain, opens });
  };
  for (const match of text.matchAll(/(?<=^|\s)\/\*\*?([\s\S]*?)\*\//g))
    add(match.index, (match[1] ?? "").replaceAll(/^\s*\* ?/gm, ""), match[0].startsWith("/**"));
  for (const match of text.matchAll(
    /(?:(?:^|\n)[ \t]*\/\/(?!\/)[^\n]*)+|[;,{})\]][ \t]+\/\/[^\n]*/g,
  ))
    add(match.index + 1, match[0].replaceAll(/(^|\s)\/\/ ?/g, " "), false);
  if (!path.startsWith("test/")) return prose;
  const titles =
    /(?:^|\n)[ \t]*(?:test|it|describe)(?:\.(?:each|for|sequential|concurrent)(?:\([\s\S]*?\n?[ \t]*\]?\s*(?:as const)?\))?)?\(\s*(?:"((?:[^"\\\n]|\\.)*)"|`([^`]*)`|'([^'\n]*)')/g;
  for (const match of text.matchAll(titles))
    add(match.index + 1, match[1] ?? match[2] ?? match[3] ?? "", false);
  return prose;
}
