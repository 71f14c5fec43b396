import { stripControlCharacters } from "../../base/strip-control-characters.ts";
import { displayWidth, toSingleLine } from "../output/display-width.ts";

/**
 * Invisible characters that change the displayed text: they reverse its direction, break lines, or hide letters. They
 * are printed as escapes.
 */
const invisible =
  /[\u00AD\u061C\u115F\u1160\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u2064\u2066-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;
// oxlint-disable-next-line no-control-regex -- the pattern must match control characters
const control = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g;
// oxlint-disable-next-line no-control-regex -- see above
const colour = /\u001B\[[0-9;]*m/g;
/** The characters that change the direction of the text around them. */
const directionControls = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
/** The minimum width of text in a narrow terminal. */
const WIDTH_MIN = 20;

/** Escapes an untrusted text for one line of a terminal. */
export function sanitizeLine(text: string): string {
  return escapeInvisible(toSingleLine(text));
}

/** Escapes an untrusted text but keeps line breaks and tabs. Only for text on its own lines, such as a result. */
export function sanitizeText(text: string): string {
  return escapeInvisible(stripControlCharacters(text.replace(colour, "")));
}

/**
 * Makes a piece of a model's answer safe for a terminal: removes control characters and those that change the direction
 * of text. The characters are removed instead of escaped, because escapes in prose disturb the reader, and the answer
 * names no file or command that must be shown exactly.
 */
export function sanitizeAnswer(piece: string): string {
  return stripControlCharacters(piece)
    .replace(/[\u2028\u2029]/g, "\n")
    .replace(directionControls, "");
}

/**
 * Formats a whole untrusted text with a mark before each line. Long lines are wrapped here, because a line that the
 * terminal wraps continues in its first column, where it could imitate output of Berth.
 */
export function sanitizeBlock(text: string, prefix: string, width: number): string {
  const available = Math.max(WIDTH_MIN, width - displayWidth(prefix));
  return escapeInvisible(text.replace(control, formatCodePoint))
    .replaceAll("\t", "    ")
    .split("\n")
    .flatMap((line) => wrapLine(line, available))
    .map((line) => `${prefix}${line}`)
    .join("\n");
}

/** Returns JSON in which control characters and invisible characters are escaped. */
export function sanitizeJson(document: unknown): string {
  return JSON.stringify(document, null, 2)
    .replace(/[\u007F-\u009F]/g, escapeCodeUnits)
    .replace(invisible, escapeCodeUnits);
}

function escapeCodeUnits(character: string): string {
  return character
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

function escapeInvisible(text: string): string {
  return text.replace(invisible, formatCodePoint);
}

function formatCodePoint(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/** Wraps a line at spaces if possible. */
function wrapLine(line: string, width: number): string[] {
  const lines: string[] = [];
  let current = "";
  let used = 0;
  for (const { segment } of segmenter.segment(line)) {
    const next = displayWidth(segment);
    if (used + next > width) {
      const blank = current.lastIndexOf(" ");
      const isAtBlank = segment !== " " && blank > 0;
      lines.push(isAtBlank ? current.slice(0, blank) : current);
      current = isAtBlank ? current.slice(blank + 1) : "";
      used = displayWidth(current);
      if (segment === " ") continue; // the line break replaces the space
    }
    current += segment;
    used += next;
  }
  return [...lines, current];
}
