import { pointerBelow } from "./json-pointer.ts";

/** A position in a text: line and column, both counted from 1, columns in UTF-16 code units as editors count them. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}

export interface JsonPositions {
  /** Offset of each key or list item by JSON Pointer, up to the first syntax error. */
  readonly offsets: ReadonlyMap<string, number>;
  /** Offset of the first syntax error or duplicate key; undefined if the text has no such error. */
  readonly errorOffset: number | undefined;
}

const DEPTH_MAX = 200;

/**
 * Finds the positions of values for error messages. `parseStrictJson`, not this function, decides if the text is
 * valid. Never throws.
 */
export function scanJsonPositions(text: string): JsonPositions {
  const scanner = new JsonPositionScanner(text);
  scanner.scanDocument();
  return { offsets: scanner.offsets, errorOffset: scanner.errorOffset };
}

export function getTextPosition(text: string, offset: number): TextPosition {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}

class JsonPositionScanner {
  readonly offsets = new Map<string, number>();
  errorOffset: number | undefined;
  readonly #text: string;
  #offset = 0;

  constructor(text: string) {
    this.#text = text;
  }

  scanDocument(): void {
    this.#scanValue("", 0);
    if (this.errorOffset !== undefined) return;
    this.#skipSpace();
    if (this.#offset < this.#text.length) this.errorOffset = this.#offset;
  }

  #scanValue(pointer: string, depth: number): void {
    this.#skipSpace();
    if (!this.offsets.has(pointer)) this.offsets.set(pointer, this.#offset);
    const character = this.#text[this.#offset];
    if (depth > DEPTH_MAX) this.errorOffset = this.#offset;
    else if (character === "{") this.#scanObject(pointer, depth);
    else if (character === "[") this.#scanList(pointer, depth);
    else if (character === '"') this.#scanString();
    else
      this.#scanToken(/(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y);
  }

  #scanObject(pointer: string, depth: number): void {
    this.#scanMembers("}", () => {
      const start = this.#offset;
      const key = this.#scanString();
      if (key === undefined) return;
      const below = pointerBelow(pointer, key);
      if (this.offsets.has(below) || key === "__proto__") {
        this.errorOffset = start;
        return;
      }
      this.offsets.set(below, start);
      this.#skipSpace();
      if (this.#scanToken(/:/y) !== undefined) this.#scanValue(below, depth + 1);
    });
  }

  #scanList(pointer: string, depth: number): void {
    let index = 0;
    this.#scanMembers("]", () => {
      this.#scanValue(pointerBelow(pointer, index), depth + 1);
      index += 1;
    });
  }

  /** Scans the members from the opening to the closing bracket, with commas between them. */
  #scanMembers(closing: string, member: () => void): void {
    this.#offset += 1;
    this.#skipSpace();
    if (this.#text[this.#offset] === closing) {
      this.#offset += 1;
      return;
    }
    while (this.errorOffset === undefined) {
      this.#skipSpace();
      member();
      if (this.errorOffset !== undefined) return;
      this.#skipSpace();
      if (this.#scanToken(closing === "}" ? /[,}]/y : /[,\]]/y) === closing) return;
    }
  }

  #scanString(): string | undefined {
    const start = this.#offset;
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') {
      end += this.#text[end] === "\\" ? 2 : 1;
    }
    try {
      const value: unknown = JSON.parse(this.#text.slice(start, end + 1));
      if (typeof value !== "string") throw new SyntaxError("not a string");
      this.#offset = end + 1;
      return value;
    } catch {
      this.errorOffset = start;
      return undefined;
    }
  }

  #scanToken(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) this.errorOffset = this.#offset;
    else this.#offset += found.length;
    return found;
  }

  #skipSpace(): void {
    while (/[\t\n\r ]/.test(this.#text.charAt(this.#offset))) this.#offset += 1;
  }
}
