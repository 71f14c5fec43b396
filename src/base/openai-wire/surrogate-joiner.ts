/**
 * Joins pieces of a text that may have been cut inside a surrogate pair. It holds back a first half until the piece
 * with the second half arrives.
 */
export class SurrogateJoiner {
  #held = "";

  push(piece: string): string {
    const text = this.#held + piece;
    const cut = isHighSurrogate(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length;
    this.#held = text.slice(cut);
    return toWellFormed(text.slice(0, cut));
  }

  /** Returns the text that is still held back. */
  end(): string {
    const rest = toWellFormed(this.#held);
    this.#held = "";
    return rest;
  }
}

/** Returns true for the first half of a surrogate pair. */
export function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

/** Replaces unpaired surrogates, which cannot be encoded, with U+FFFD. */
function toWellFormed(text: string): string {
  return text.replaceAll(/\p{Surrogate}/gu, "\u{FFFD}");
}
