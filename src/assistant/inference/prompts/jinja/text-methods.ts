import { center, pad, WIDTH_MAX } from "./format-text.ts";
import { toText } from "./print-value.ts";
import { type Arguments, iterate, Tuple, type Value } from "./values.ts";

type TextMethod = (text: string, args: Arguments) => Value;

/** The characters that Python counts as white space, for a character class of a regular expression. */
export const SPACE =
  "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
// oxlint-disable-next-line no-control-regex -- Python breaks lines at these characters too
const lineBreak = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

/** The methods of Python's strings that templates use. */
export const textMethods: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  ["upper", (text) => text.toUpperCase()],
  ["lower", (text) => text.toLowerCase()],
  ["casefold", (text) => text.toLowerCase().replaceAll("ß", "ss")],
  ["capitalize", (text) => capitalize(text)],
  ["title", (text) => toTitle(text)],
  ["swapcase", (text) => text.replaceAll(/\p{L}/gu, (letter) => swapCase(letter))],
  ["strip", (text, args) => strip(text, args.get(0, "chars"))],
  ["lstrip", (text, args) => strip(text, args.get(0, "chars"), "start")],
  ["rstrip", (text, args) => strip(text, args.get(0, "chars"), "end")],
  ["startswith", (text, args) => listAffixes(args).some((one) => text.startsWith(one))],
  ["endswith", (text, args) => listAffixes(args).some((one) => text.endsWith(one))],
  ["removeprefix", (text, args) => removePrefix(text, args.getText(0, "prefix", ""))],
  ["removesuffix", (text, args) => removeSuffix(text, args.getText(0, "suffix", ""))],
  ["split", (text, args) => split(text, args, false)],
  ["rsplit", (text, args) => split(text, args, true)],
  ["expandtabs", (text, args) => expandTabs(text, args.getInteger(0, "tabsize", 8))],
  ["splitlines", (text) => splitLines(text)],
  ["partition", (text, args) => partition(text, args) ?? Tuple.create(text, "", "")],
  ["rpartition", (text, args) => partition(text, args, true) ?? Tuple.create("", "", text)],
  ["join", (text, args) => joinTexts(text, args.get(0, "iterable"))],
  ["replace", (text, args) => replace(text, args)],
  ["find", (text, args) => countCharacters(text, text.indexOf(args.getText(0, "sub", "")))],
  ["rfind", (text, args) => countCharacters(text, text.lastIndexOf(args.getText(0, "sub", "")))],
  ["index", (text, args) => indexOf(text, args)],
  ["rindex", (text, args) => indexOf(text, args, true)],
  ["count", (text, args) => text.split(args.getText(0, "sub", "")).length - 1],
  ["zfill", (text, args) => fillZeros(text, args.getInteger(0, "width", 0))],
  ["ljust", (text, args) => justify(text, args, "<")],
  ["rjust", (text, args) => justify(text, args, ">")],
  [
    "center",
    (text, args) => center(text, args.getText(1, "fillchar", " "), args.getInteger(0, "width", 0)),
  ],
  ["isdigit", (text) => /^\p{Nd}+$/u.test(text)],
  ["isdecimal", (text) => /^\p{Nd}+$/u.test(text)],
  ["isnumeric", (text) => /^\p{N}+$/u.test(text)],
  ["isalpha", (text) => /^\p{L}+$/u.test(text)],
  ["isalnum", (text) => /^[\p{L}\p{N}]+$/u.test(text)],
  ["isascii", (text) => /^[\0-\x7f]*$/.test(text)],
  ["isidentifier", (text) => /^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(text)],
  ["istitle", (text) => /\p{L}/u.test(text) && text === toTitle(text)],
  ["isspace", (text) => new RegExp(`^[${SPACE}]+$`, "u").test(text)],
  ["isupper", (text) => text === text.toUpperCase() && text !== text.toLowerCase()],
  ["islower", (text) => text === text.toLowerCase() && text !== text.toUpperCase()],
]);

function toTitle(text: string): string {
  return text.replaceAll(/\p{L}+/gu, (word) => capitalize(word));
}

/** Replaces each tab by spaces up to the next column that is a multiple of `size`. */
function expandTabs(text: string, size: number): string {
  let column = 0;
  return Array.from(text)
    .map((character) => {
      const width = size > 0 ? size - (column % size) : 0;
      column = character === "\n" || character === "\r" ? 0 : column + 1;
      if (character !== "\t") return character;
      column += width - 1;
      return " ".repeat(Math.min(width, WIDTH_MAX));
    })
    .join("");
}

export function capitalize(text: string): string {
  const [first = "", ...rest] = Array.from(text);
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** Removes white space, or the given characters, from both ends or from one. */
export function strip(text: string, chars: Value, end: "both" | "start" | "end" = "both"): string {
  const wanted = chars === undefined || chars === null ? undefined : new Set(toText(chars));
  const space = new RegExp(`[${SPACE}]`, "u");
  const isStripped = (character: string): boolean =>
    wanted === undefined ? space.test(character) : wanted.has(character);
  const characters = Array.from(text);
  let from = 0;
  let to = characters.length;
  if (end !== "end") while (from < to && isStripped(characters[from] ?? "")) from += 1;
  if (end !== "start") while (to > from && isStripped(characters[to - 1] ?? "")) to -= 1;
  return characters.slice(from, to).join("");
}

/** Splits a text at its line breaks. A line break at the end of the text does not begin another line. */
export function splitLines(text: string): string[] {
  const lines = text.split(lineBreak);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Replaces the first `count` occurrences of a text, or all occurrences if there is no count. */
export function replace(text: string, args: Arguments): string {
  const old = toText(args.get(0, "old"));
  const parts = old === "" ? ["", ...Array.from(text), ""] : text.split(old);
  const count = args.getInteger(2, "count", -1);
  if (count < 0 || count >= parts.length - 1) return parts.join(toText(args.get(1, "new")));
  const rest = parts.splice(count).join(old);
  return [...parts, rest].join(toText(args.get(1, "new")));
}

function swapCase(letter: string): string {
  const lower = letter.toLowerCase();
  return letter === lower ? letter.toUpperCase() : lower;
}

function listAffixes(args: Arguments): readonly string[] {
  const affix = args.get(0, "prefix");
  if (affix instanceof Tuple) return affix.map((one) => assertText(one));
  return [assertText(affix)];
}

function assertText(value: Value): string {
  if (typeof value === "string") return value;
  throw new TypeError("an argument must be a string");
}

function removePrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

function removeSuffix(text: string, suffix: string): string {
  return suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
}

function split(text: string, args: Arguments, isFromEnd: boolean): string[] {
  const separator = args.get(0, "sep");
  const given = args.getInteger(1, "maxsplit", -1);
  const max = given < 0 ? Number.POSITIVE_INFINITY : given;
  if (separator === undefined || separator === null) return splitAtSpace(text, max, isFromEnd);
  if (typeof separator !== "string" || separator === "")
    throw new TypeError("the separator of split() must be a string that is not empty");
  const parts = text.split(separator);
  if (parts.length <= max + 1) return parts;
  if (isFromEnd) {
    const first = parts.splice(0, parts.length - max).join(separator);
    return [first, ...parts];
  }
  const last = parts.splice(max).join(separator);
  return [...parts, last];
}

function splitAtSpace(text: string, max: number, isFromEnd: boolean): string[] {
  const words = [...text.matchAll(new RegExp(`[^${SPACE}]+`, "gu"))];
  if (words.length <= max + 1) return words.map(([word]) => word);
  if (isFromEnd) {
    const last = words[words.length - max - 1];
    const first = text.slice(0, (last?.index ?? 0) + (last?.[0].length ?? 0));
    return [first, ...words.slice(words.length - max).map(([word]) => word)];
  }
  const rest = strip(text.slice(words[max]?.index ?? 0), null, "start");
  return [...words.slice(0, max).map(([word]) => word), rest];
}

/** Splits a text at the first or the last separator; undefined if the text does not contain it. */
function partition(text: string, args: Arguments, isFromEnd = false): Tuple | undefined {
  const separator = args.getText(0, "sep", "");
  const at = isFromEnd ? text.lastIndexOf(separator) : text.indexOf(separator);
  if (at === -1) return undefined;
  return Tuple.create(text.slice(0, at), separator, text.slice(at + separator.length));
}

function joinTexts(separator: string, value: Value): string {
  return iterate(value)
    .map((item) => assertText(item))
    .join(separator);
}

/** Converts an index of JavaScript, which counts UTF-16 units, to one of Python. */
function countCharacters(text: string, index: number): number {
  return index < 0 ? index : Array.from(text.slice(0, index)).length;
}

function indexOf(text: string, args: Arguments, isFromEnd = false): number {
  const wanted = args.getText(0, "sub", "");
  const index = isFromEnd ? text.lastIndexOf(wanted) : text.indexOf(wanted);
  if (index === -1) throw new RangeError(`the text does not contain "${wanted}"`);
  return countCharacters(text, index);
}

function fillZeros(text: string, width: number): string {
  const sign = /^[-+]/.exec(text)?.[0] ?? "";
  return sign + pad(text.slice(sign.length), "0", ">", width - sign.length);
}

function justify(text: string, args: Arguments, align: string): string {
  return pad(text, args.getText(1, "fillchar", " "), align, args.getInteger(0, "width", 0));
}
