/** A signal is at most this long: a piece that takes longer would hold up everybody else's. */
const PIECE_LENGTH_MAX = 32 * 1_024;

/**
 * Text as it may go over the bus: whole code points, without the character 0, which no text on D-Bus can hold.
 * A provider may cut a pair of surrogates in two; the first half then waits for the other one.
 */
export class BusTextSplitter {
  #held = "";

  /** None is "". */
  *push(text: string): Generator<string> {
    const whole = this.#held + text;
    const isCut = isHighSurrogate(whole.charCodeAt(whole.length - 1));
    this.#held = isCut ? whole.slice(-1) : "";
    yield* splitPieces(isCut ? whole.slice(0, -1) : whole);
  }

  /** What was held back; half a code point is told as the character for that. */
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
