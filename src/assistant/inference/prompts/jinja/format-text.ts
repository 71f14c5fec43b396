import { toRepresentation, toText } from "./print-value.ts";
import { type Arguments, Float, iterate, nameType, Tuple, toNumber, type Value } from "./values.ts";

/** How one value is written: `[[fill]align][sign][0][width][.precision][type]`. */
interface Format {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly type: string;
}

/** The width and the precision that a template may request; a larger value would only fill memory. */
export const WIDTH_MAX = 10_000;
const PRECISION_MAX = 100;

/**
 * Implements Python's `str.format`: `{}`, `{0}`, `{name}`, `{0.key[1]!r:>8.2f}`, `{{` and `}}`. `getMember` reads the
 * attributes and items that a field names.
 */
export function formatBraces(
  template: string,
  args: Arguments,
  getMember: (object: Value, key: Value) => Value,
): string {
  let next = 0;
  return template.replaceAll(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (match, field: string | undefined) => {
    if (match === "{{" || match === "}}") return match.charAt(0);
    if (field === undefined) throw new Error(`a brace is not closed in the format "${template}"`);
    const parts = /^(?<path>[^!:]*)(?:!(?<conversion>[rs]))?(?::(?<format>.*))?$/s.exec(
      field,
    )?.groups;
    if (!parts) throw new Error(`the field {${field}} of a format is not supported`);
    const [, first = "", rest = ""] = /^([^.[]*)(.*)$/s.exec(parts["path"] ?? "") ?? [];
    const key = first === "" ? next++ : /^\d+$/.test(first) ? Number(first) : first;
    let value = typeof key === "number" ? args.positional[key] : args.named.get(key);
    if (typeof key === "number" ? key >= args.positional.length : !args.named.has(key))
      throw new Error(`the format has no argument {${key}}`);
    for (const [, name, index] of rest.matchAll(/\.([^.[]+)|\[([^\]]+)\]/g)) {
      const part = name ?? index ?? "";
      value = getMember(value, /^\d+$/.test(part) ? Number(part) : part);
    }
    if (parts["conversion"] === "r") value = toRepresentation(value);
    if (parts["conversion"] === "s") value = toText(value);
    return formatValue(value, parseFormat(parts["format"] ?? ""));
  });
}

/** Implements Python's `text % values`. */
export function formatPercent(template: string, values: Value): string {
  const list = values instanceof Tuple ? iterate(values) : [values];
  let next = 0;
  const text = template.replaceAll(
    /%(?:\(([^)]*)\))?([-+0 #]*)(\d*)(?:\.(\d+))?([a-zA-Z%])/g,
    (_match, key: string | undefined, flags: string, width: string, precision, type: string) => {
      if (type === "%") return "%";
      if (key === undefined && next >= list.length)
        throw new TypeError("the format has too few values");
      const value = key === undefined ? list[next++] : getKey(values, key);
      return formatValue(type === "r" ? toRepresentation(value) : value, {
        fill: flags.includes("0") && !flags.includes("-") ? "0" : " ",
        align: flags.includes("-") ? "<" : flags.includes("0") ? "=" : ">",
        sign: flags.includes("+") ? "+" : flags.includes(" ") ? " " : "",
        width: limit(Number(width), WIDTH_MAX),
        precision: precision === undefined ? undefined : limit(Number(precision), PRECISION_MAX),
        type: type === "r" ? "s" : type === "i" ? "d" : type,
      });
    },
  );
  // Like Python, this check refuses superfluous values only if the values are a tuple, a single text or a single
  // number. Superfluous items of a list or dictionary are ignored.
  const isCounted = values instanceof Tuple || !(Array.isArray(values) || values instanceof Map);
  if (next < list.length && isCounted) throw new TypeError("the format has too many values");
  return text;
}

function getKey(values: Value, key: string): Value {
  if (values instanceof Map && values.has(key)) return values.get(key);
  throw new TypeError(`the format has no value "${key}"`);
}

function parseFormat(text: string): Format {
  const parts =
    /^(?:(?<fill>.)?(?<align>[<>=^]))?(?<sign>[-+ ])?(?<zero>0)?(?<width>\d*)(?:\.(?<precision>\d+))?(?<type>[a-zA-Z%]?)$/su.exec(
      text,
    )?.groups;
  if (!parts) throw new Error(`the format "${text}" is not supported`);
  const { fill, align, sign, zero, width, precision, type } = parts;
  return {
    fill: fill ?? (zero === undefined ? " " : "0"),
    align: align ?? (zero === undefined ? "" : "="),
    sign: sign === "-" ? "" : (sign ?? ""),
    width: limit(Number(width), WIDTH_MAX),
    precision: precision === undefined ? undefined : limit(Number(precision), PRECISION_MAX),
    type: type ?? "",
  };
}

function limit(value: number, max: number): number {
  if (value > max) throw new RangeError(`a format asks for more than ${max} characters`);
  return value;
}

function formatValue(value: Value, format: Format): string {
  const { type, precision, align, fill, width } = format;
  // A boolean is written as a number if the format has any width or type.
  const isWord = typeof value === "boolean" && type === "" && width === 0 && align === "";
  const number = isWord ? undefined : toNumber(value);
  const isText = type === "s" || (type === "" && number === undefined);
  if (isText) {
    const text = Array.from(toText(value)).slice(0, precision).join("");
    return pad(text, fill, align === "" || align === "=" ? "<" : align, width);
  }
  if (number === undefined) throw new TypeError(`${nameType(value)} is not a number`);
  const digits = writeDigits(Math.abs(number), value, format);
  const isInteger = type === "d" || type === "x" || type === "X";
  const isNegative = isInteger ? number <= -1 : number < 0 || Object.is(number, -0);
  const sign = isNegative ? "-" : format.sign;
  if (align !== "=") return pad(sign + digits, fill, align === "" ? ">" : align, width);
  return sign + pad(digits, fill, ">", width - sign.length);
}

function writeDigits(size: number, value: Value, { type, precision }: Format): string {
  switch (type) {
    case "":
      if (precision !== undefined) return String(Number(size.toPrecision(Math.max(1, precision))));
      return toText(value instanceof Float ? new Float(size) : size);
    case "d":
      return String(Math.trunc(size));
    case "x":
      return Math.trunc(size).toString(16);
    case "X":
      return Math.trunc(size).toString(16).toUpperCase();
    case "f":
    case "F":
      return size.toFixed(precision ?? 6);
    case "%":
      return `${(size * 100).toFixed(precision ?? 6)}%`;
    default:
      throw new Error(`the type "${type}" of a format is not supported`);
  }
}

/** Fills a text up to the width; `align` is `<`, `>` or `^`. */
export function pad(text: string, fill: string, align: string, width: number): string {
  const missing = Math.max(0, Math.min(width, WIDTH_MAX) - Array.from(text).length);
  const before = align === "<" ? 0 : align === "^" ? Math.floor(missing / 2) : missing;
  return fill.repeat(before) + text + fill.repeat(missing - before);
}

/** Centers a text as Python's method does; a format puts the odd fill character always behind the text. */
export function center(text: string, fill: string, width: number): string {
  const missing = Math.max(0, Math.min(width, WIDTH_MAX) - Array.from(text).length);
  const isOdd = missing % 2 === 1 && width % 2 === 1;
  const before = Math.floor(missing / 2) + (isOdd ? 1 : 0);
  return fill.repeat(before) + text + fill.repeat(missing - before);
}
