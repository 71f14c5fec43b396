import { readStringLiteral } from "./string-literal.ts";
import { SPACE, strip } from "./text-methods.ts";

export interface Token {
  readonly kind:
    | "text"
    | "statement"
    | "output"
    /** The end of a statement or an output. */
    | "tag end"
    | "name"
    | "string"
    | "integer"
    | "float"
    | "operator"
    | "end of the template";
  /** The characters of the token; of a string its value. */
  readonly text: string;
  readonly line: number;
}

/**
 * Splits a template into tokens, with the options of chat templates: the line break after a statement or a comment and
 * the white space before one at the beginning of a line do not belong to the text. `-` and `+` at the marks of a tag
 * remove all white space and none.
 */
export function scanTemplate(source: string): readonly Token[] {
  return [...new TemplateScanner(source).scan()];
}

const tagStart = new RegExp(
  `\\{(?:%(?<raw>[-+]?)[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})|(?<mark>[%{#])(?<sign>[-+]?))`,
  "gu",
);
const commentEnd = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, "gu");
const rawEnd = new RegExp(
  `\\{%(?<sign>[-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`,
  "gu",
);
const tagEnds = {
  statement: new RegExp(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`, "uy"),
  output: new RegExp(`-\\}\\}[${SPACE}]*|\\}\\}`, "uy"),
};

/** The tokens in a tag, in the order in which they are tried. */
const rules: readonly { readonly kind: Token["kind"] | "space"; readonly pattern: RegExp }[] = [
  { kind: "space", pattern: new RegExp(`[${SPACE}]+`, "uy") },
  {
    kind: "float",
    pattern: /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[-+]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iuy,
  },
  {
    kind: "integer",
    pattern: /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iuy,
  },
  { kind: "name", pattern: /[\p{ID_Continue}]+/uy },
  { kind: "string", pattern: /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/suy },
  { kind: "operator", pattern: /\/\/|\*\*|[=!<>]=|[-+/*%~[\](){}<>=.:|,;]/uy },
];

const brackets: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

class TemplateScanner {
  readonly #source: string;
  #position = 0;
  /** The line of the character at `#counted`. */
  #line = 1;
  #counted = 0;
  #isAtLineStart = true;

  constructor(source: string) {
    // A line break at the end of the file does not belong to the template.
    this.#source = source.replaceAll(/\r\n?/g, "\n").replace(/\n$/, "");
  }

  *scan(): Generator<Token> {
    for (;;) {
      const tag = this.#match(tagStart);
      const text = this.#source.slice(this.#position, tag?.index);
      if (tag === undefined) {
        yield* this.#textToken(text);
        yield this.#token("end of the template", "");
        return;
      }
      const { raw, mark, sign = "" } = tag.groups ?? {};
      yield* this.#textToken(
        mark === "{" ? stripSigned(text, sign) : this.#strip(text, raw ?? sign),
      );
      this.#moveBehind(tag);
      if (mark === undefined) yield* this.#scanRaw();
      else if (mark === "#") this.#skipComment();
      else yield* this.#scanTag(mark === "%" ? "statement" : "output");
    }
  }

  /** Removes the white space in front of a statement or a comment that the options and its sign remove. */
  #strip(text: string, sign: string): string {
    if (sign !== "") return stripSigned(text, sign);
    const lineStart = text.lastIndexOf("\n") + 1;
    if (lineStart === 0 && !this.#isAtLineStart) return text;
    return strip(text.slice(lineStart), null) === "" ? text.slice(0, lineStart) : text;
  }

  /** Reads text in which tags have no meaning. */
  *#scanRaw(): Generator<Token> {
    const end = this.#match(rawEnd);
    if (end === undefined) throw this.#error('the end of "raw" is missing');
    const text = this.#source.slice(this.#position, end.index);
    yield* this.#textToken(this.#strip(text, end.groups?.["sign"] ?? ""));
    this.#moveBehind(end);
  }

  #skipComment(): void {
    const end = this.#match(commentEnd);
    if (end === undefined) throw this.#error("the end of a comment is missing");
    this.#moveBehind(end);
  }

  *#scanTag(kind: "statement" | "output"): Generator<Token> {
    yield this.#token(kind, "");
    const open: string[] = [];
    for (;;) {
      const end = open.length === 0 ? this.#match(tagEnds[kind]) : undefined;
      if (end !== undefined) {
        yield this.#token("tag end", "");
        this.#moveBehind(end);
        return;
      }
      const found = this.#matchRule();
      if (found.kind !== "space") yield this.#token(found.kind, found.text);
      this.#moveBehind(found.match);
      if (found.kind === "operator") this.#balance(found.text, open);
    }
  }

  #matchRule(): {
    readonly kind: Token["kind"] | "space";
    readonly text: string;
    readonly match: RegExpExecArray;
  } {
    for (const { kind, pattern } of rules) {
      const match = this.#match(pattern);
      if (match === undefined) continue;
      const text = kind === "string" ? readStringLiteral(match[0]) : match[0];
      if (kind === "name" && !/^[\p{ID_Start}_]/u.test(text))
        throw this.#error(`"${text}" is not a name`);
      return { kind, text, match };
    }
    const character = String.fromCodePoint(this.#source.codePointAt(this.#position) ?? 32);
    throw this.#error(
      this.#position >= this.#source.length
        ? "the end of a tag is missing"
        : `"${character}" has no meaning here`,
    );
  }

  /** Keeps the closing brackets that a tag still needs: its end mark has no meaning before them. */
  #balance(operator: string, open: string[]): void {
    const closing = brackets[operator];
    if (closing !== undefined) open.push(closing);
    else if (")]}".includes(operator) && open.pop() !== operator)
      throw this.#error(`"${operator}" closes no bracket`);
  }

  /** Matches a pattern here, or if it is not sticky, here or later. */
  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#position;
    return pattern.exec(this.#source) ?? undefined;
  }

  #moveBehind(match: RegExpExecArray): void {
    this.#position = match.index + match[0].length;
    this.#isAtLineStart = match[0].endsWith("\n");
  }

  *#textToken(text: string): Generator<Token> {
    if (text !== "") yield this.#token("text", text);
  }

  #token(kind: Token["kind"], text: string): Token {
    return { kind, text, line: this.#countLine() };
  }

  #countLine(): number {
    this.#line += this.#source.slice(this.#counted, this.#position).split("\n").length - 1;
    this.#counted = this.#position;
    return this.#line;
  }

  #error(message: string): SyntaxError {
    return new SyntaxError(`${message} (line ${this.#countLine()})`);
  }
}

function stripSigned(text: string, sign: string): string {
  return sign === "-" ? strip(text, null, "end") : text;
}
