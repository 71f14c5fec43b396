import {
  Attributes,
  DictionaryView,
  Float,
  NumberRange,
  nameType,
  SafeText,
  Tuple,
  type Value,
} from "./values.ts";

/** Returns what Python's `str` returns; the empty text for an undefined value, as in Jinja. */
export function toText(value: Value): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return value instanceof SafeText ? value.text : toRepresentation(value);
}

/** Returns what Python's `repr` returns. */
export function toRepresentation(value: Value): string {
  if (value === undefined) return "Undefined";
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (value instanceof Float) return writeFloat(value.value);
  if (typeof value === "string") return quote(value);
  if (value instanceof SafeText) return `Markup(${quote(value.text)})`;
  if (Array.isArray(value)) {
    if (value instanceof NumberRange)
      return `range(${value.from}, ${value.to}${value.step === 1 ? "" : `, ${value.step}`})`;
    const items = value.map((item) => toRepresentation(item));
    if (value instanceof DictionaryView) return `${value.name}([${items.join(", ")}])`;
    if (!(value instanceof Tuple)) return `[${items.join(", ")}]`;
    return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
  }
  if (value instanceof Map) {
    const members = [...value].map(
      ([key, item]) => `${toRepresentation(key)}: ${toRepresentation(item)}`,
    );
    return `{${members.join(", ")}}`;
  }
  return value instanceof Attributes ? "<namespace>" : "<function>";
}

/** Writes a float with the digits and the exponent that Python writes. */
function writeFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (Object.is(value, -0)) return "-0.0";
  const [digits = "", exponentText] = value.toExponential().split("e");
  const exponent = Number(exponentText);
  if (value !== 0 && (exponent < -4 || exponent >= 16)) {
    const sign = exponent < 0 ? "-" : "+";
    return `${digits}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

const escapes: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/**
 * Private-use characters are left unchanged, although Python escapes them, because `TextMasker` represents characters
 * of clients by them.
 */
function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll(/[\\\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Z}]/gu, (character) =>
    character === " " ? character : (escapes[character] ?? escapeCodePoint(character)),
  );
  return mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
}

function escapeCodePoint(character: string): string {
  const hex = (character.codePointAt(0) ?? 0).toString(16);
  if (hex.length <= 2) return `\\x${hex.padStart(2, "0")}`;
  return hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

export interface JsonOptions {
  readonly ensuresAscii: boolean;
  /** The indentation of one level. If it is undefined, the JSON text is written in one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortsKeys: boolean;
}

/** Returns what Python's `json.dumps` returns. Throws for values that JSON does not have. */
export function toJson(value: Value, options: JsonOptions, margin = "\n"): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoteJson(value, options);
  if (value instanceof SafeText) return quoteJson(value.text, options);
  if (typeof value === "number" || value instanceof Float) return toRepresentation(value);
  const inner = margin + (options.indent ?? "");
  if (Array.isArray(value)) {
    const items = value.map((item) => toJson(item, options, inner));
    return enclose("[", items, "]", options, margin);
  }
  if (value instanceof Map) {
    const entries = [...value].map(([key, item]): [string, Value] => [toJsonKey(key), item]);
    if (options.sortsKeys) entries.sort(([one], [other]) => (one < other ? -1 : 1));
    const members = entries.map(
      ([key, item]) =>
        quoteJson(key, options) + options.keySeparator + toJson(item, options, inner),
    );
    return enclose("{", members, "}", options, margin);
  }
  throw new TypeError(`${nameType(value)} cannot be written as JSON`);
}

function toJsonKey(key: Value): string {
  if (typeof key === "string") return key;
  if (key === null || typeof key === "boolean") return String(key);
  if (typeof key === "number" || key instanceof Float) return toRepresentation(key);
  throw new TypeError(`${nameType(key)} cannot be a key in JSON`);
}

function enclose(
  open: string,
  items: readonly string[],
  close: string,
  { indent, itemSeparator }: JsonOptions,
  margin: string,
): string {
  if (items.length === 0 || indent === undefined) return open + items.join(itemSeparator) + close;
  const inner = margin + indent;
  return open + inner + items.join(itemSeparator + inner) + margin + close;
}

function quoteJson(text: string, { ensuresAscii }: JsonOptions): string {
  const quoted = JSON.stringify(text);
  if (!ensuresAscii) return quoted;
  return quoted.replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
