import { AssistantError } from "../../assistant-error.ts";
import { Float } from "./jinja/values.ts";
import { NameTrie } from "./name-trie.ts";
import type { PromptPiece } from "./prompt-piece.ts";

/**
 * Prevents clients' text from becoming control tokens. Before rendering, every character of a control token's name in
 * such text is replaced by one private-use character that occurs neither in the request nor in the template. After
 * rendering, the original characters are restored in pieces that are tokenised without control tokens. A template
 * trims, splits, measures and compares masked text like any other.
 */
export class ControlTokenGuard {
  readonly #names: NameTrie;
  readonly #reversedNames: NameTrie;
  readonly #joined: string;
  readonly #longest: number;
  /** All characters that occur in names of control tokens. */
  readonly letters: ReadonlySet<string>;
  readonly template: string;

  constructor(options: { readonly controlTokens: readonly string[]; readonly template: string }) {
    const names = options.controlTokens.filter((name) => name !== "");
    this.template = options.template;
    this.letters = new Set(names.flatMap((name) => Array.from(name)));
    this.#names = new NameTrie(names);
    // The names of the control tokens are reversed, so that the trie can find their suffixes as prefixes.
    this.#reversedNames = new NameTrie(names.map(reverseText));
    this.#joined = names.join("\0");
    this.#longest = names.reduce((longest, { length }) => Math.max(longest, length), 0);
  }

  /**
   * Returns the names of the control tokens in the prompt, in their order in the prompt. Skips the pieces in which the
   * tokenizer accepts no control tokens.
   */
  findControlTokens(pieces: readonly PromptPiece[]): readonly string[] {
    const found: string[] = [];
    for (const { text, allowsControlTokens } of pieces) {
      if (!allowsControlTokens) continue;
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
   * Returns the spans of a client's text that must be masked, in order and disjoint: names of control
   * tokens, and a prefix of a name at the end, which the text that follows in the prompt could complete.
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

  /**
   * Returns true if the template could write the beginning of a control token's name before the client's `text`, and
   * `text` could continue or complete that name.
   */
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
 * Masks the client's texts in one request with private-use characters. Mode `names` masks only the names of control
 * tokens, so that the template can compare all other text with fixed values; mode `letters` masks every character that
 * occurs in such a name.
 */
export class TextMasker {
  readonly #guard: ControlTokenGuard;
  readonly #mode: "names" | "letters";
  readonly #unusedCodes: Iterator<string>;
  readonly #codeByCharacter = new Map<string, string>();
  readonly #characterByCode = new Map<string, string>();
  /** True if a client's text and the template's own text together may still form the name of a control token. */
  mayFormControlToken = false;

  /** `used` contains the private-use characters that occur in the client's text. */
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
    let masked = "";
    let at = 0;
    for (const [from, to] of this.#guard.findUnsafeSpans(text)) {
      masked += text.slice(at, from) + this.#maskIf(text.slice(from, to), () => true);
      at = to;
    }
    return masked + text.slice(at);
  }

  /** Splits a rendered prompt into pieces and restores the masked text. */
  unmask(rendered: string): readonly PromptPiece[] {
    if (this.#characterByCode.size === 0)
      return rendered === "" ? [] : [{ text: rendered, allowsControlTokens: true }];
    const codes = [...this.#characterByCode.keys()];
    // Matches the escapes that `tojson(ensure_ascii=true)` writes, an option that few templates use.
    const escaped = this.#guard.template.includes("ensure_ascii") ? codes.map(toJsonEscape) : [];
    const masked = new RegExp(
      `(?:[${codes.join("")}]${escaped.map((one) => `|\\${one}`).join("")})+`,
      "g",
    );
    const code = new RegExp(
      `[${codes.join("")}]${escaped.map((one) => `|\\${one}`).join("")}`,
      "g",
    );
    const pieces: PromptPiece[] = [];
    let at = 0;
    for (const match of rendered.matchAll(masked)) {
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

  /**
   * Masks the characters that `wanted` selects. White space and characters that JSON escapes are never masked, because
   * templates trim white space and serialise texts as JSON.
   */
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
          "the messages use nearly all of Unicode's private-use characters; use fewer of them",
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

/** Adds the text's private-use characters to `found`. */
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

/** Applies a function to every text in a JSON value, property names included. */
export function mapTexts(value: unknown, transform: (text: string) => string): unknown {
  if (typeof value === "string") return transform(value);
  if (Array.isArray(value)) return value.map((entry: unknown) => mapTexts(entry, transform));
  if (typeof value !== "object" || value === null || value instanceof Float) return value;
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

/** Reverses a text by UTF-16 code units, because NameTrie also compares code units. */
function reverseText(text: string): string {
  return text.split("").toReversed().join("");
}
