/**
 * Puts a text together again whose pieces were cut within a code point, between the two halves of a surrogate
 * pair: the first half waits for the piece that has the second.
 */
export class SurrogateJoiner {
  #held = "";

  push(piece: string): string {
    const text = this.#held + piece;
    const cut = isHighSurrogate(text.charCodeAt(text.length - 1)) ? text.length - 1 : text.length;
    this.#held = text.slice(cut);
    return toWellFormed(text.slice(0, cut));
  }

  /** What is left when no piece comes any more. */
  end(): string {
    const rest = toWellFormed(this.#held);
    this.#held = "";
    return rest;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

/** Halves without their other half, which no encoder takes, become U+FFFD. */
function toWellFormed(text: string): string {
  return text.replaceAll(/\p{Surrogate}/gu, "\u{FFFD}");
}
