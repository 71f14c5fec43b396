/** Most characters of text in one signal: a longer signal would delay the signals of other clients. */
const PIECE_LENGTH_MAX = 32 * 1_024;

/**
 * Makes text fit for D-Bus: whole code points without NUL, which D-Bus strings cannot contain. A provider may split
 * a surrogate pair between two chunks; the first half is then held until the second arrives.
 */
export class BusTextSplitter {
  #held = "";

  /** Adds a chunk of text and yields the non-empty pieces that can be sent. */
  *push(text: string): Generator<string> {
    const whole = this.#held + text;
    const isCut = isHighSurrogate(whole.charCodeAt(whole.length - 1));
    this.#held = isCut ? whole.slice(-1) : "";
    yield* splitPieces(isCut ? whole.slice(0, -1) : whole);
  }

  /** Yields the text that was held back; a lone surrogate becomes U+FFFD. */
  *flush(): Generator<string> {
    const rest = this.#held;
    this.#held = "";
    yield* splitPieces(rest);
  }
}

function* splitPieces(text: string): Generator<string> {
  const clean = text.replaceAll(/[\0\p{Surrogate}]/gu, "\ufffd");
  for (let start = 0; start < clean.length; ) {
    let end = Math.min(start + PIECE_LENGTH_MAX, clean.length);
    if (end < clean.length && isHighSurrogate(clean.charCodeAt(end - 1))) end -= 1;
    yield clean.slice(start, end);
    start = end;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}
