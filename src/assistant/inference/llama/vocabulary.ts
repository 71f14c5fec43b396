import { type LlamaModel, LlamaVocabularyType } from "node-llama-cpp";
import type { Token } from "../runner.ts";
import { toLibraryTokens } from "./llama-library.ts";

/** What `tokenizer.ggml.token_type` calls an ordinary piece of text. */
const ORDINARY_TOKEN_TYPE = 1;
const NO_BYTES = new Uint8Array();

/**
 * The bytes behind each token. The library tells texts only, and of a token that is half a character
 * that is a replacement mark; so the words are taken from the file's own list, spelt as llama.cpp's
 * token_to_piece does it.
 */
export class Vocabulary {
  /** Tokens that steer a model and that no user's text may become, by how they are written. */
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
      // llama.cpp makes control tokens of some that the file calls ordinary; they all look like these.
      if (Number(types[token]) === ORDINARY_TOKEN_TYPE && !/^[<[|｜]/.test(word)) continue;
      const { control: steers, unknown } = this.#getAttributes(token);
      if ((steers || unknown) && word !== "") control.set(word, token);
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

  /** Control tokens have no bytes, unless they are to be shown. */
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
    if (known === undefined) throw new RangeError(`${token} is no token`);
    return this.#model.getTokenAttributes(known);
  }
}

/**
 * GPT-2's way to write bytes as letters: printable ones stand for themselves, the others for the
 * letters from U+0100 on.
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
