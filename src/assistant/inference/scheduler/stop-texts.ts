/**
 * Looks for the texts that end an answer while it comes in pieces. The result does not depend on where
 * the pieces part: the stop text whose last character comes first wins, of several that end together
 * the longest, and nothing that could still become part of one is let through.
 */
export class StopTexts {
  readonly #matchers: readonly StopTextMatcher[];
  #held = "";

  /** None of `stops` is empty. */
  constructor(stops: readonly string[]) {
    // An answer consists of whole code points, so half of one never occurs in it.
    this.#matchers = stops
      .filter((stop) => !LONE_SURROGATE.test(stop))
      .map((stop) => new StopTextMatcher(stop));
  }

  /** What may be told after this piece; `stopped`: the answer ends with it. */
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

  /** The answer has ended by itself: what was held back is part of it. */
  flush(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}

/** A surrogate without its other half. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Knuth, Morris and Pratt: each character costs the same, however long the stop text is. */
class StopTextMatcher {
  readonly #stop: string;
  /** How much of the beginning is still matched when the character after so many did not fit. */
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

  /** How many characters of the stop text the text now ends with. */
  get matchedLength(): number {
    return this.#matchedLength;
  }

  /** The length of the stop text when this character completes it, else 0. */
  push(unit: number): number {
    while (this.#matchedLength > 0 && this.#stop.charCodeAt(this.#matchedLength) !== unit)
      this.#matchedLength = this.#fallback[this.#matchedLength - 1] ?? 0;
    if (this.#stop.charCodeAt(this.#matchedLength) === unit) this.#matchedLength += 1;
    return this.#matchedLength === this.#stop.length ? this.#matchedLength : 0;
  }
}
