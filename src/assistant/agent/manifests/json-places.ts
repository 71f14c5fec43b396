import { pointerBelow } from "./json-pointer.ts";

/** Where in a text, both counted from 1, in characters as editors count them. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

export interface JsonPlaces {
  /** Offset of the key, or of the value in a list, by JSON Pointer; as far as the text is JSON. */
  readonly offsets: ReadonlyMap<string, number>;
  /** Where the text ceases to be JSON, or a key stands a second time; undefined: nowhere. */
  readonly fault: number | undefined;
}

const DEPTH_MAX = 200;

/** For messages only: what counts is what `parseStrictJson` says. Never throws. */
export function jsonPlaces(text: string): JsonPlaces {
  const scanner = new Scanner(text);
  scanner.document();
  return { offsets: scanner.offsets, fault: scanner.fault };
}

export function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}

class Scanner {
  readonly offsets = new Map<string, number>();
  fault: number | undefined;
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): void {
    this.#value("", 0);
    if (this.fault !== undefined) return;
    this.#space();
    if (this.#at < this.#text.length) this.fault = this.#at;
  }

  #value(pointer: string, depth: number): void {
    this.#space();
    if (!this.offsets.has(pointer)) this.offsets.set(pointer, this.#at);
    const character = this.#text[this.#at];
    if (depth > DEPTH_MAX) this.fault = this.#at;
    else if (character === "{") this.#object(pointer, depth);
    else if (character === "[") this.#list(pointer, depth);
    else if (character === '"') this.#string();
    else this.#token(/(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y);
  }

  #object(pointer: string, depth: number): void {
    this.#members("}", () => {
      const start = this.#at;
      const key = this.#string();
      if (key === undefined) return;
      const below = pointerBelow(pointer, key);
      if (this.offsets.has(below) || key === "__proto__") {
        this.fault = start;
        return;
      }
      this.offsets.set(below, start);
      this.#space();
      if (this.#token(/:/y) !== undefined) this.#value(below, depth + 1);
    });
  }

  #list(pointer: string, depth: number): void {
    let index = 0;
    this.#members("]", () => {
      this.#value(pointerBelow(pointer, index), depth + 1);
      index += 1;
    });
  }

  /** From the opening bracket to the closing one, with commas between. */
  #members(closing: string, member: () => void): void {
    this.#at += 1;
    this.#space();
    if (this.#text[this.#at] === closing) {
      this.#at += 1;
      return;
    }
    while (this.fault === undefined) {
      this.#space();
      member();
      if (this.fault !== undefined) return;
      this.#space();
      if (this.#token(closing === "}" ? /[,}]/y : /[,\]]/y) === closing) return;
    }
  }

  #string(): string | undefined {
    const start = this.#at;
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') {
      end += this.#text[end] === "\\" ? 2 : 1;
    }
    try {
      const value: unknown = JSON.parse(this.#text.slice(start, end + 1));
      if (typeof value !== "string") throw new SyntaxError("no string");
      this.#at = end + 1;
      return value;
    } catch {
      this.fault = start;
      return undefined;
    }
  }

  #token(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) this.fault = this.#at;
    else this.#at += found.length;
    return found;
  }

  #space(): void {
    while (/[\t\n\r ]/.test(this.#text.charAt(this.#at))) this.#at += 1;
  }
}
