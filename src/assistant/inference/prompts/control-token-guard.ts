import { AssistantError } from "../../assistant-error.ts";
import { NameTrie } from "./name-trie.ts";
import type { PromptPiece } from "./prompt-piece.ts";

/**
 * Keeps what clients write from becoming control tokens. Before rendering, the letters of every name of a
 * control token in their text are replaced by private-use characters that occur nowhere in the request or
 * the template, one for one; afterwards these become the same letters again, as pieces in which no control
 * token is looked for. A template trims, splits, measures and compares such text as any other.
 */
export class ControlTokenGuard {
  readonly #names: NameTrie;
  readonly #reversedNames: NameTrie;
  readonly #joined: string;
  readonly #longest: number;
  /** Characters of names; no other one can be a part of a control token. */
  readonly letters: ReadonlySet<string>;
  readonly template: string;

  constructor(options: { readonly controlTokens: readonly string[]; readonly template: string }) {
    const names = options.controlTokens.filter((name) => name !== "");
    this.template = options.template;
    this.letters = new Set(names.flatMap((name) => Array.from(name)));
    this.#names = new NameTrie(names);
    // Read from their ends, so that the ends of names are beginnings.
    this.#reversedNames = new NameTrie(names.map(reverseText));
    this.#joined = names.join("\0");
    this.#longest = names.reduce((longest, { length }) => Math.max(longest, length), 0);
  }

  /** The names that would become control tokens, in order. */
  findControlTokens(pieces: readonly PromptPiece[]): readonly string[] {
    const found: string[] = [];
    for (const { text, allowsControlTokens: special } of pieces) {
      if (!special) continue;
      for (let at = 0; at < text.length; at++) {
        const length = this.#names.findLongestAt(text, at);
        if (length === 0) continue;
        found.push(text.slice(at, at + length));
        at += length - 1;
      }
    }
    return found;
  }

  /**
   * The stretches of a client's text that have to be hidden, in order, apart: names, those that overlap too,
   * and the beginning of one at the end, which what follows in the prompt could complete.
   */
  findUnsafeSpans(text: string): readonly Span[] {
    const spans: [number, number][] = [];
    const add = (from: number, to: number): void => {
      const last = spans.at(-1);
      if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
      else spans.push([from, to]);
    };
    for (let at = 0; at < text.length; at++) {
      const length = this.#names.findLongestAt(text, at);
      if (length > 0) add(at, at + length);
    }
    const end = text.trimEnd().length;
    for (let from = Math.max(0, end - this.#longest + 1); from < end; from++) {
      if (!this.#names.isProperPrefix(text.slice(from, end))) continue;
      const before = spans.at(-1);
      add(before === undefined ? from : Math.max(from, before[0]), end);
      break;
    }
    return spans;
  }

  /** Whether the text could be a part of a name of which the template writes what comes before. */
  canCompleteControlToken(text: string): boolean {
    const trimmed = text.trim();
    if (trimmed === "") return false;
    if (trimmed.length < this.#longest && this.#joined.includes(trimmed)) return true;
    for (let length = Math.min(this.#longest - 1, trimmed.length); length > 0; length--) {
      if (this.#reversedNames.isProperPrefix(reverseText(trimmed.slice(0, length)))) return true;
    }
    return false;
  }
}

type Span = readonly [from: number, to: number];

/**
 * Hides the texts of one request. `names`: what a template might compare stays readable, and only names of
 * control tokens are hidden; `letters`: every letter that any name has is.
 */
export class TextMasker {
  readonly #guard: ControlTokenGuard;
  readonly #mode: "names" | "letters";
  readonly #unusedCodes: Iterator<string>;
  readonly #codeByCharacter = new Map<string, string>();
  readonly #characterByCode = new Map<string, string>();
  /** Whether the template might still make a name out of a client's text and its own. */
  mayFormControlToken = false;

  /** `used`: private-use characters that the client's own text has. */
  constructor(guard: ControlTokenGuard, mode: "names" | "letters", used: ReadonlySet<string>) {
    this.#guard = guard;
    this.#mode = mode;
    this.#unusedCodes = generateUnusedCharacters(
      (character) => used.has(character) || guard.template.includes(character),
    );
  }

  mask(text: string): string {
    if (this.#mode === "letters") {
      return this.#maskIf(text, (character) => this.#guard.letters.has(character));
    }
    if (this.#guard.canCompleteControlToken(text)) this.mayFormControlToken = true;
    let hidden = "";
    let at = 0;
    for (const [from, to] of this.#guard.findUnsafeSpans(text)) {
      hidden += text.slice(at, from) + this.#maskIf(text.slice(from, to), () => true);
      at = to;
    }
    return hidden + text.slice(at);
  }

  /** Takes a rendered prompt apart where hidden text stands. */
  unmask(rendered: string): readonly PromptPiece[] {
    if (this.#characterByCode.size === 0)
      return rendered === "" ? [] : [{ text: rendered, allowsControlTokens: true }];
    const codes = [...this.#characterByCode.keys()];
    // As `tojson(ensure_ascii=true)` writes them, which few templates ask for.
    const escaped = this.#guard.template.includes("ensure_ascii") ? codes.map(toJsonEscape) : [];
    const hidden = new RegExp(
      `(?:[${codes.join("")}]${escaped.map((one) => `|\\${one}`).join("")})+`,
      "g",
    );
    const code = new RegExp(
      `[${codes.join("")}]${escaped.map((one) => `|\\${one}`).join("")}`,
      "g",
    );
    const pieces: PromptPiece[] = [];
    let at = 0;
    for (const match of rendered.matchAll(hidden)) {
      if (match.index > at)
        pieces.push({ text: rendered.slice(at, match.index), allowsControlTokens: true });
      const text = match[0].replaceAll(
        code,
        (one) => this.#characterByCode.get(one.length === 1 ? one : fromJsonEscape(one)) ?? one,
      );
      pieces.push({ text, allowsControlTokens: false });
      at = match.index + match[0].length;
    }
    if (at < rendered.length) pieces.push({ text: rendered.slice(at), allowsControlTokens: true });
    return pieces;
  }

  /** Space stays, since templates trim it; so does what JSON escapes, since templates quote text. */
  #maskIf(text: string, wanted: (character: string) => boolean): string {
    return text.replaceAll(/[^\s"\\\p{Cc}]/gu, (character) =>
      wanted(character) ? this.#getCode(character) : character,
    );
  }

  #getCode(character: string): string {
    let code = this.#codeByCharacter.get(character);
    if (code === undefined) {
      const next = this.#unusedCodes.next();
      if (next.done === true) {
        throw new AssistantError(
          "invalid_request",
          "the messages use nearly all of Unicode's private-use characters; leave some of them out",
          { param: "messages" },
        );
      }
      code = next.value;
      this.#codeByCharacter.set(character, code);
      this.#characterByCode.set(code, character);
    }
    return code;
  }
}

const PRIVATE_FIRST = 0xe000;
const PRIVATE_LAST = 0xf8ff;

/** Adds the private-use characters of a text. */
export function collectPrivateUse(text: string, found: Set<string>): void {
  for (const [character] of text.matchAll(/[\ue000-\uf8ff]/g)) found.add(character);
}

function* generateUnusedCharacters(
  isUsed: (character: string) => boolean,
): Generator<string, void> {
  for (let code = PRIVATE_FIRST; code <= PRIVATE_LAST; code++) {
    const character = String.fromCharCode(code);
    if (!isUsed(character)) yield character;
  }
}

/** Applies a function to every text in what JSON holds: names of properties too. */
export function mapTexts(value: unknown, transform: (text: string) => string): unknown {
  if (typeof value === "string") return transform(value);
  if (Array.isArray(value)) return value.map((entry: unknown) => mapTexts(entry, transform));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]: [string, unknown]) => [
      transform(key),
      mapTexts(entry, transform),
    ]),
  );
}

function toJsonEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16)}`;
}

function fromJsonEscape(escape: string): string {
  return String.fromCharCode(Number.parseInt(escape.slice(2), 16));
}

/** By UTF-16 code unit, as names are searched. */
function reverseText(text: string): string {
  return text.split("").toReversed().join("");
}
