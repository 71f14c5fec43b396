import { type LlamaModel, LlamaVocabularyType } from "node-llama-cpp";
import type { Token } from "../runner.ts";
import { toLibraryTokens } from "./llama-library.ts";

/** The value of `tokenizer.ggml.token_type` for ordinary text. */
const ORDINARY_TOKEN_TYPE = 1;
const NO_BYTES = new Uint8Array();

/**
 * Converts each token to its bytes. The library node-llama-cpp converts tokens only to text, in which an incomplete
 * character becomes a replacement character. So this class uses the token list of the model's file, and converts its
 * entries like llama.cpp's token_to_piece.
 */
export class Vocabulary {
  /** Control tokens by their text. A client's text must never become a control token. */
  readonly controlTokens: ReadonlyMap<string, Token>;
  readonly #model: LlamaModel;
  readonly #words: readonly string[];
  readonly #pieces: (Uint8Array | undefined)[] = [];
  readonly #controlIds: ReadonlySet<Token>;

  constructor(model: LlamaModel) {
    this.#model = model;
    this.#words = model.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
    const types = model.fileInfo.metadata.tokenizer?.ggml?.token_type ?? [];
    const control = new Map<string, Token>();
    for (const [token, word] of this.#words.entries()) {
      // Each call of `#getAttributes` calls native code, so ordinary tokens are skipped. Exceptions are tokens that
      // begin with <, [, | or ｜, because llama.cpp treats some of these as control tokens.
      if (Number(types[token]) === ORDINARY_TOKEN_TYPE && !/^[<[|｜]/.test(word)) continue;
      const { control: isControl, unknown: isUnknown } = this.#getAttributes(token);
      if ((isControl || isUnknown) && word !== "") control.set(word, token);
    }
    this.controlTokens = control;
    this.#controlIds = new Set(control.values());
  }

  get size(): number {
    return this.#words.length;
  }

  getWord(token: Token | null): string | undefined {
    return token === null ? undefined : this.#words[token];
  }

  /** Returns the bytes of a token. A control token has no bytes unless `showControlTokens` is true. */
  getBytes(token: Token, showControlTokens: boolean): Uint8Array {
    if (this.#controlIds.has(token)) {
      return showControlTokens ? Buffer.from(this.#words[token] ?? "") : NO_BYTES;
    }
    const known = this.#pieces[token];
    if (known) return known;
    const piece = this.#decodeWord(token);
    this.#pieces[token] = piece;
    return piece;
  }

  #decodeWord(token: Token): Uint8Array {
    const word = this.#words[token];
    if (word === undefined) return NO_BYTES;
    const attributes = this.#getAttributes(token);
    if (attributes.userDefined) return Buffer.from(word);
    switch (this.#model.vocabularyType) {
      case LlamaVocabularyType.bpe:
        return decodeByteLetters(word);
      case LlamaVocabularyType.spm:
      case LlamaVocabularyType.ugm:
      case LlamaVocabularyType.wpm:
      case LlamaVocabularyType.plamo2: {
        const byte = /^<0x([0-9A-F]{2})>$/.exec(word)?.[1];
        if (attributes.byte && byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16));
        return Buffer.from(word.replaceAll("▁", " "));
      }
      default:
        return Buffer.from(this.#model.detokenize(toLibraryTokens([token])));
    }
  }

  #getAttributes(token: Token) {
    const [known] = toLibraryTokens([token]);
    if (known === undefined) throw new RangeError(`${token} is not a token`);
    return this.#model.getTokenAttributes(known);
  }
}

/**
 * GPT-2's encoding of bytes as letters: a printable byte is its own character, and all other bytes are the characters
 * from U+0100 on.
 */
const byteByLetter: ReadonlyMap<string, number> = (() => {
  let next = 0x100;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [
      String.fromCodePoint(isPrintable(byte) ? byte : next++),
      byte,
    ]),
  );
})();

function isPrintable(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

function decodeByteLetters(word: string): Uint8Array {
  const bytes: number[] = [];
  for (const letter of word) {
    const byte = byteByLetter.get(letter);
    if (byte === undefined) bytes.push(...Buffer.from(letter));
    else bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
