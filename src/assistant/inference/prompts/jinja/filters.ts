import { listItems } from "./collection-methods.ts";
import { center, formatPercent } from "./format-text.ts";
import { getAttribute } from "./get-member.ts";
import { escapeHtml } from "./operators.ts";
import { toJson, toRepresentation, toText } from "./print-value.ts";
import { sequenceFilters } from "./sequence-filters.ts";
import { capitalize, replace, splitLines, strip } from "./text-methods.ts";
import {
  Arguments,
  Float,
  getLength,
  isTruthy,
  iterate,
  LazyList,
  nameType,
  SafeText,
  Tuple,
  toNumber,
  type Value,
  withoutSafety,
} from "./values.ts";

type Filter = (value: Value, args: Arguments) => Value;

/** Applies the filter with this name. Throws if there is none, or if it does not accept the value. */
export function applyFilter(name: string, operand: Value, args: Arguments): Value {
  const isEscape = name === "e" || name === "escape";
  if (isEscape && operand instanceof SafeText) return operand;
  const value = withoutSafety(operand);
  const plain = new Arguments(args.positional.map(withoutSafety), args.named);
  const sequence = sequenceFilters.get(name);
  if (sequence !== undefined) return sequence(value, plain, applyFilter);
  const filter = filters.get(name);
  if (filter === undefined) throw new Error(`there is no filter "${name}"`);
  return filter(value, plain);
}

export function isFilterName(name: Value): boolean {
  return typeof name === "string" && (filters.has(name) || sequenceFilters.has(name));
}

const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["abs", (value) => absolute(value)],
  ["attr", (value, args) => getAttribute(value, args.getText(0, "name", ""))],
  ["center", (value, args) => center(toText(value), " ", args.getInteger(0, "width", 80))],
  ["capitalize", (value) => capitalize(toText(value))],
  ["count", (value) => getLength(value)],
  ["d", (value, args) => getDefault(value, args)],
  ["default", (value, args) => getDefault(value, args)],
  ["e", (value) => new SafeText(escapeHtml(toText(value)))],
  ["escape", (value) => new SafeText(escapeHtml(toText(value)))],
  ["forceescape", (value) => new SafeText(escapeHtml(toText(value)))],
  ["float", (value, args) => toFloat(value, args)],
  ["format", (value, args) => formatPercent(toText(value), toFormatValues(args))],
  ["indent", (value, args) => indent(toText(value), args)],
  ["int", (value, args) => toInteger(value, args)],
  ["items", (value) => getItems(value)],
  ["length", (value) => getLength(value)],
  ["lower", (value) => toText(value).toLowerCase()],
  ["pprint", (value) => toRepresentation(value)],
  ["replace", (value, args) => replace(toText(value), args)],
  ["round", (value, args) => round(value, args)],
  ["safe", (value) => new SafeText(toText(value))],
  ["string", (value) => toText(value)],
  ["title", (value) => toTitle(toText(value))],
  ["tojson", (value, args) => writeJson(value, args)],
  ["truncate", (value, args) => truncate(value, args)],
  ["trim", (value, args) => strip(toText(value), args.get(0, "chars"))],
  ["upper", (value) => toText(value).toUpperCase()],
  ["urlencode", (value) => encodeUrl(value)],
  ["xmlattr", (value, args) => writeAttributes(value, args)],
  ["wordcount", (value) => toText(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0],
]);

function absolute(value: Value): Value {
  const number = toNumber(value);
  if (number === undefined) throw new TypeError(`${nameType(value)} has no absolute value`);
  return value instanceof Float ? new Float(Math.abs(number)) : Math.abs(number);
}

function getDefault(value: Value, args: Arguments): Value {
  const isMissing = value === undefined || (args.getBoolean(1, "boolean") && !isTruthy(value));
  if (!isMissing) return value;
  return args.positional.length > 0 || args.named.has("default_value")
    ? args.get(0, "default_value")
    : "";
}

function toFormatValues({ positional, named }: Arguments): Value {
  return named.size > 0 ? new Map<Value, Value>(named) : Tuple.create(...positional);
}

function getItems(value: Value): Value {
  if (value === undefined) return LazyList.create([]);
  if (value instanceof Map) return LazyList.create(listItems(value));
  throw new TypeError(`${nameType(value)} has no items`);
}

function indent(text: string, args: Arguments): string {
  const width = args.get(0, "width") ?? 4;
  const margin = typeof width === "string" ? width : " ".repeat(args.getInteger(0, "width", 4));
  const lines = splitLines(`${text}\n`);
  const indented = lines.map((line, index) =>
    index === 0 || (line === "" && !args.getBoolean(2, "blank")) ? line : margin + line,
  );
  return (args.getBoolean(1, "first") ? margin : "") + indented.join("\n");
}

function toInteger(value: Value, args: Arguments): Value {
  const number = toNumber(value);
  if (number !== undefined) return Math.trunc(number) + 0;
  const text = strip(toText(value), null);
  const base = args.getInteger(1, "base", 10);
  if (base === 10 && /^[-+]?[\d_]+$/.test(text)) return Number(text.replaceAll("_", ""));
  if (base === 16 && /^[-+]?(0x)?[\da-f]+$/i.test(text)) return Number.parseInt(text, 16);
  const parsed = parseFloatText(text);
  return parsed === undefined ? (args.get(0, "default") ?? 0) : Math.trunc(parsed) + 0;
}

function toFloat(value: Value, args: Arguments): Value {
  const number = toNumber(value) ?? parseFloatText(strip(toText(value), null));
  return number === undefined ? (args.get(0, "default") ?? new Float(0)) : new Float(number);
}

function parseFloatText(text: string): number | undefined {
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

/** Rounds to the nearest number, and to an even digit if two are equally near, as Python does. */
function round(value: Value, args: Arguments): Value {
  const number = toNumber(value);
  if (number === undefined) throw new TypeError(`${nameType(value)} cannot be rounded`);
  const scale = 10 ** args.getInteger(0, "precision", 0);
  const scaled = number * scale;
  const method = args.getText(1, "method", "common");
  if (method === "ceil") return new Float(Math.ceil(scaled) / scale);
  if (method === "floor") return new Float(Math.floor(scaled) / scale);
  // Python rounds an integer to an integer.
  if (!(value instanceof Float) && scale >= 1) return number;
  const below = Math.floor(scaled);
  const isTie = scaled - below === 0.5;
  const rounded = isTie ? below + (below % 2 === 0 ? 0 : 1) : Math.round(scaled);
  return new Float(rounded / scale);
}

/** Shortens a text that is longer than `length` by more than `leeway`. */
function truncate(value: Value, args: Arguments): Value {
  const length = args.getInteger(0, "length", 255);
  const end = args.getText(2, "end", "...");
  const characters = Array.from(toText(value));
  const kept = length - Array.from(end).length;
  if (kept < 0) throw new RangeError("the length of truncate() is below that of its end");
  if (getLength(value) <= length + args.getInteger(3, "leeway", 5)) return value;
  const start = characters.slice(0, kept).join("");
  const space = args.getBoolean(1, "killwords") ? -1 : start.lastIndexOf(" ");
  return (space === -1 ? start : start.slice(0, space)) + end;
}

/** Encodes a text for a path, and a dictionary or pairs for a query. */
function encodeUrl(value: Value): string {
  const pairs = value instanceof Map ? listItems(value) : value;
  if (!Array.isArray(pairs)) return quoteForUrl(value).replaceAll("%2F", "/");
  return pairs
    .map((pair) =>
      iterate(pair)
        .map((part) => quoteForUrl(part).replaceAll("%20", "+"))
        .join("="),
    )
    .join("&");
}

function quoteForUrl(part: Value): string {
  return encodeURIComponent(toText(part)).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Writes the attributes of an XML element. */
function writeAttributes(value: Value, args: Arguments): string {
  if (!(value instanceof Map)) throw new TypeError(`${nameType(value)} is not a dictionary`);
  const attributes = [...value].flatMap(([key, content]) => {
    if (content === null || content === undefined) return [];
    const name = toText(key);
    if (/[ \t\n\r\f\v/>=]/.test(name)) throw new Error(`"${name}" is no name of an attribute`);
    return [`${escapeHtml(name)}="${escapeHtml(toText(content))}"`];
  });
  const hasSpace = args.getBoolean(0, "autospace", true) && attributes.length > 0;
  return (hasSpace ? " " : "") + attributes.join(" ");
}

function toTitle(text: string): string {
  return text
    .split(/([-\s({[<]+)/)
    .map((part) => capitalize(part))
    .join("");
}

function writeJson(value: Value, args: Arguments): string {
  const indentation = args.get(1, "indent") ?? undefined;
  const separators = args.get(2, "separators");
  const [itemSeparator, keySeparator] = Array.isArray(separators)
    ? separators
    : [indentation === undefined ? ", " : ",", ": "];
  if (typeof itemSeparator !== "string" || typeof keySeparator !== "string")
    throw new TypeError("the separators of tojson() must be two strings");
  return toJson(value, {
    ensuresAscii: args.getBoolean(0, "ensure_ascii"),
    indent:
      indentation === undefined || typeof indentation === "string"
        ? indentation
        : " ".repeat(args.getInteger(1, "indent", 0)),
    itemSeparator,
    keySeparator,
    sortsKeys: args.getBoolean(3, "sort_keys"),
  });
}
