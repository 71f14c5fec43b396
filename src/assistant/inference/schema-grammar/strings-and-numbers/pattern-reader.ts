import { UnsupportedConstructError } from "./budget.ts";

/** A pattern's source and how far it is read. */
export class PatternReader {
  readonly isUnicode: boolean;
  /** Without them, and without the flag `u`, `\k` is the letter. */
  readonly hasNamedGroups: boolean;
  private readonly source: string;
  private position = 0;

  constructor(source: string, unicode: boolean) {
    this.source = source;
    this.isUnicode = unicode;
    this.hasNamedGroups = source.includes("(?<");
  }

  isAtEnd(): boolean {
    return this.position >= this.source.length;
  }

  startsWith(text: string): boolean {
    return this.source.startsWith(text, this.position);
  }

  /** Moves past `text` if it comes next. */
  skip(text: string): boolean {
    if (!this.startsWith(text)) return false;
    this.position += text.length;
    return true;
  }

  /** Moves past what the sticky expression matches here. */
  match(sticky: RegExp): readonly string[] | undefined {
    sticky.lastIndex = this.position;
    const found = sticky.exec(this.source);
    if (found === null) return undefined;
    this.position += found[0].length;
    return found;
  }

  /** Moves past one character. Without the flag `u` those past U+FFFF are two, and refused. */
  next(): number {
    const value = this.source.codePointAt(this.position);
    if (value === undefined) {
      throw new UnsupportedConstructError("is not a valid ECMA-262 regular expression");
    }
    if (value > 0xffff && !this.isUnicode) {
      throw new UnsupportedConstructError(
        "has a character past U+FFFF and is only valid without the flag u, where that is two units",
      );
    }
    this.position += value > 0xffff ? 2 : 1;
    return value;
  }
}
