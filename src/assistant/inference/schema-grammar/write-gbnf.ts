import type { CodePointRange, Expression } from "./expression.ts";
import { grammarTooLarge } from "./rule-table.ts";
import { schemaLimits } from "./schema-limits.ts";

/**
 * Writes the grammar in llama.cpp's syntax: one rule per line, `root` first. Only classes and rules are repeated with a
 * count, because llama.cpp multiplies the count of a repetition by the number of groups in it, and refuses a product
 * above 2,000.
 */
export function writeGbnf(rules: ReadonlyMap<string, Expression>, root: Expression): string {
  const writer = new GbnfWriter(new Set(rules.keys()));
  writer.writeRule("root", root);
  for (const [name, expression] of rules) writer.writeRule(name, expression);
  return writer.text();
}

class GbnfWriter {
  readonly #names: Set<string>;
  readonly #lines: string[] = [];
  #bytes = 0;

  constructor(names: Set<string>) {
    this.#names = names;
    if (names.has("root")) throw new Error("a rule has the reserved name root");
  }

  writeRule(name: string, expression: Expression): void {
    const extractedRules: [string, Expression][] = [];
    const extractRule = (item: Expression): string => {
      let number = 1;
      while (this.#names.has(`${name}-r${number}`)) number += 1;
      const given = `${name}-r${number}`;
      this.#names.add(given);
      extractedRules.push([given, item]);
      return given;
    };
    const line = `${name} ::= ${writeExpression(expression, "rule", extractRule)}\n`;
    this.#lines.push(line);
    this.#bytes += Buffer.byteLength(line);
    if (this.#bytes > schemaLimits.grammarBytes) throw grammarTooLarge();
    for (const [given, item] of extractedRules) this.writeRule(given, item);
  }

  text(): string {
    return this.#lines.join("");
  }
}

type ExpressionPosition = "rule" | "option" | "item" | "repeated";

function writeExpression(
  expression: Expression,
  position: ExpressionPosition,
  extractRule: (item: Expression) => string,
): string {
  switch (expression.kind) {
    case "literal":
      return `"${escapeText(expression.text)}"`;
    case "class":
      return writeClass(expression.ranges);
    case "rule":
      return expression.name;
    case "sequence": {
      const text = expression.items
        .map((item) => writeExpression(item, "item", extractRule))
        .join(" ");
      return position === "repeated" ? `(${text})` : text || '""';
    }
    case "choice": {
      const text = expression.options
        .map((option) => writeExpression(option, "option", extractRule))
        .join(" | ");
      return position === "rule" ? text : `(${text})`;
    }
    default: {
      const { item, min, max } = expression;
      const counted = min > 1 || (max ?? 1) > 1;
      const plain = item.kind === "class" || item.kind === "rule";
      const inner =
        counted && !plain ? extractRule(item) : writeExpression(item, "repeated", extractRule);
      const grouped = item.kind === "repeat" && !counted ? `(${inner})` : inner;
      return grouped + writeQuantifier(min, max);
    }
  }
}

function writeQuantifier(min: number, max: number | undefined): string {
  if (max === undefined) return min === 0 ? "*" : min === 1 ? "+" : `{${min},}`;
  if (min === 0 && max === 1) return "?";
  return min === max ? `{${min}}` : `{${min},${max}}`;
}

/** Writes a character class without the surrogates, which do not exist in UTF-8. */
function writeClass(ranges: readonly CodePointRange[]): string {
  const parts = ranges.flatMap(([from, to]): CodePointRange[] => {
    const below: CodePointRange = [from, Math.min(to, 0xd7ff)];
    const above: CodePointRange = [Math.max(from, 0xe000), to];
    return [below, above].filter(([low, high]) => low <= high);
  });
  if (parts.length === 0) throw new Error("a character class has no characters");
  const text = parts.map(([from, to]) =>
    from === to ? escapeInClass(from) : `${escapeInClass(from)}-${escapeInClass(to)}`,
  );
  return `[${text.join("")}]`;
}

function escapeInClass(codePoint: number): string {
  const plain = String.fromCodePoint(codePoint);
  return /[a-zA-Z0-9 ]/.test(plain) ? plain : escapeCodePoint(codePoint);
}

function escapeText(text: string): string {
  return /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(text)
    ? text
    : Array.from(text, escapeCharacter).join("");
}

function escapeCharacter(character: string): string {
  if (character === '"') return '\\"';
  if (character === "\\") return "\\\\";
  const codePoint = character.codePointAt(0) ?? 0;
  return codePoint >= 0x20 && codePoint < 0x7f ? character : escapeCodePoint(codePoint);
}

function escapeCodePoint(codePoint: number): string {
  const hex = codePoint.toString(16).toUpperCase();
  if (codePoint <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return codePoint <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
