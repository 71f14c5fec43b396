/**
 * Finds stop texts in an answer that arrives in pieces. The result does not depend on how the answer is
 * split: the stop text that ends first wins, the longest if several end together, and text that could
 * still become part of a stop text is held back.
 */
export class StopTexts {
  readonly #matchers: readonly StopTextMatcher[];
  #held = "";

  /** `stops` must not contain an empty text. */
  constructor(stops: readonly string[]) {
    // An answer consists of whole code points, so it never contains half of a code point.
    this.#matchers = stops
      .filter((stop) => !LONE_SURROGATE.test(stop))
      .map((stop) => new StopTextMatcher(stop));
  }

  /** Returns the text that may be emitted after this piece. `stopped` is true if a stop text was found. */
  push(piece: string): { readonly text: string; readonly stopped: boolean } {
    if (this.#matchers.length === 0) return { text: piece, stopped: false };
    const text = this.#held + piece;
    for (let at = this.#held.length; at < text.length; at += 1) {
      const unit = text.charCodeAt(at);
      let matched = 0;
      for (const search of this.#matchers) matched = Math.max(matched, search.push(unit));
      if (matched === 0) continue;
      this.#held = "";
      return { text: text.slice(0, at + 1 - matched), stopped: true };
    }
    const keep = this.#matchers.reduce((most, search) => Math.max(most, search.matchedLength), 0);
    this.#held = text.slice(text.length - keep);
    return { text: text.slice(0, text.length - keep), stopped: false };
  }

  /** Returns the text that is still held back. To be called when the answer ends without a stop text. */
  flush(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}

/** Matches an unpaired surrogate. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Matches one stop text with the algorithm of Knuth, Morris and Pratt, at a constant cost per character on average. */
class StopTextMatcher {
  readonly #stop: string;
  /** KMP's failure function: the length still matched when the next character does not match. */
  readonly #fallback: Int32Array;
  #matchedLength = 0;

  constructor(stop: string) {
    this.#stop = stop;
    this.#fallback = new Int32Array(stop.length);
    for (let length = 1; length < stop.length; length += 1) {
      this.#matchedLength = this.#fallback[length - 1] ?? 0;
      this.push(stop.charCodeAt(length));
      this.#fallback[length] = this.#matchedLength;
    }
    this.#matchedLength = 0;
  }

  /** The length of the longest prefix of the stop text with which the text so far ends. */
  get matchedLength(): number {
    return this.#matchedLength;
  }

  /** Reads the next UTF-16 unit. Returns the length of the stop text if the unit completes it, otherwise 0. */
  push(unit: number): number {
    while (this.#matchedLength > 0 && this.#stop.charCodeAt(this.#matchedLength) !== unit)
      this.#matchedLength = this.#fallback[this.#matchedLength - 1] ?? 0;
    if (this.#stop.charCodeAt(this.#matchedLength) === unit) this.#matchedLength += 1;
    return this.#matchedLength === this.#stop.length ? this.#matchedLength : 0;
  }
}
