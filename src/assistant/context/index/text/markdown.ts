import { type DocumentText, HEADING_SEPARATOR, type Section } from "./document-text.ts";

/**
 * Splits Markdown into sections, one for each heading. The text keeps its markup, except for headings, front matter and
 * link targets. `fallbackTitle` is the title of a text without headings.
 */
export function readMarkdown(text: string, fallbackTitle: string): DocumentText {
  const lines = splitFrontMatter(text).lines;
  const sections: Section[] = [];
  const trail: string[] = [];
  let body: string[] = [];
  let fence: string | undefined;
  const close = () => {
    const joined = body.join("\n").trim();
    body = [];
    if (joined !== "" || trail.length > 0) {
      sections.push({ heading: joinHeadings(trail), text: stripLinkTargets(joined) });
    }
  };
  for (const [at, line] of lines.entries()) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark !== undefined && (fence === undefined || mark.startsWith(fence)))
      fence = fence === undefined ? mark : undefined;
    const heading = fence === undefined ? parseHeadingAt(lines, at) : undefined;
    if (heading === undefined) {
      body.push(line);
      continue;
    }
    if (heading.isUnderlined) body.pop();
    close();
    trail.length = Math.min(trail.length, heading.level - 1);
    trail[heading.level - 1] = heading.text;
  }
  close();
  const own = splitFrontMatter(text).title ?? firstHeading(lines);
  return { title: own ?? fallbackTitle, sections };
}

function joinHeadings(trail: readonly string[]): string {
  return trail.filter((it) => it !== undefined && it !== "").join(HEADING_SEPARATOR);
}

interface Heading {
  readonly level: number;
  readonly text: string;
  /** True if the parsed line is an underline (`===` or `---`) and the line above it is the text of the heading. */
  readonly isUnderlined: boolean;
}

function parseHeadingAt(lines: readonly string[], at: number): Heading | undefined {
  const line = lines[at] ?? "";
  const marks = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/.exec(line);
  if (marks) {
    const text = (marks[2] ?? "").trim().replace(/[ \t]+#+$/, "");
    return { level: marks[1]?.length ?? 1, text: stripInlineMarkup(text), isUnderlined: false };
  }
  const above = (lines[at - 1] ?? "").trim();
  const beforeThat = (lines[at - 2] ?? "").trim();
  if (!/^ {0,3}(=+|-{2,})[ \t]*$/.test(line) || above === "" || beforeThat !== "") return undefined;
  if (/^([-*+>|#]|\d+[.)])/.test(above)) return undefined;
  const level = line.trim().startsWith("=") ? 1 : 2;
  return { level, text: stripInlineMarkup(above), isUnderlined: true };
}

function firstHeading(lines: readonly string[]): string | undefined {
  for (const at of lines.keys()) {
    const heading = parseHeadingAt(lines, at);
    if (heading && heading.text !== "") return heading.text;
  }
  return undefined;
}

/**
 * Separates front matter (YAML between two lines `---` at the start) from the text. Returns the lines after it, and its
 * title.
 */
function splitFrontMatter(text: string): { lines: readonly string[]; title: string | undefined } {
  const lines = text.split("\n");
  if (lines[0]?.trimEnd() !== "---") return { lines, title: undefined };
  const end = lines.findIndex((line, at) => at > 0 && /^(---|\.\.\.)\s*$/.test(line));
  if (end === -1) return { lines, title: undefined };
  const title = lines
    .slice(1, end)
    .map((line) =>
      /^title:\s*(.+)$/
        .exec(line)?.[1]
        ?.trim()
        .replace(/^(["'])(.*)\1$/, "$2"),
    )
    .find((it) => it !== undefined && it !== "");
  return { lines: lines.slice(end + 1), title };
}

function stripInlineMarkup(text: string): string {
  return stripLinkTargets(text)
    .replaceAll(/[*_`]{1,3}/g, "")
    .trim();
}

/** Replaces `[words](address)` by the words, because words in an address would give wrong hits. */
function stripLinkTargets(text: string): string {
  return text.replaceAll(/!?\[([^\]\n]{0,500})\]\([^()\s]{0,2000}(?:\s"[^"\n]{0,500}")?\)/g, "$1");
}
