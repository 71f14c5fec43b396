import { UnsupportedTextError } from "./budget.ts";

/** A pattern's source and how far it is read. */
export class PatternText {
  readonly unicode: boolean;
  /** Without them, and without the flag `u`, `\k` is the letter. */
  readonly namedGroups: boolean;
  private readonly source: string;
  private at = 0;

  constructor(source: string, unicode: boolean) {
    this.source = source;
    this.unicode = unicode;
    this.namedGroups = source.includes("(?<");
  }

  atEnd(): boolean {
    return this.at >= this.source.length;
  }

  startsWith(text: string): boolean {
    return this.source.startsWith(text, this.at);
  }

  /** Moves past `text` if it comes next. */
  take(text: string): boolean {
    if (!this.startsWith(text)) return false;
    this.at += text.length;
    return true;
  }

  /** Moves past what the sticky expression matches here. */
  match(sticky: RegExp): readonly string[] | undefined {
    sticky.lastIndex = this.at;
    const found = sticky.exec(this.source);
    if (found === null) return undefined;
    this.at += found[0].length;
    return found;
  }

  /** Moves past one character. Without the flag `u` those past U+FFFF are two, and refused. */
  next(): number {
    const value = this.source.codePointAt(this.at);
    if (value === undefined) {
      throw new UnsupportedTextError("is not a valid ECMA-262 regular expression");
    }
    if (value > 0xffff && !this.unicode) {
      throw new UnsupportedTextError(
        "has a character past U+FFFF and is only valid without the flag u, where that is two units",
      );
    }
    this.at += value > 0xffff ? 2 : 1;
    return value;
  }
}
