import { type CallProgress, ValueScanner } from "./call-scanner.ts";

/** Longer than a tool may be named. */
const NAME_MAX = 200;
const BETWEEN = "[ARGS]";

/** Reads one call `name[ARGS]{...}` as it comes; the marker before it has been read. */
export class NamedCallScanner {
  readonly #value = new ValueScanner();
  #head = "";
  #isTold = false;

  push(text: string): CallProgress {
    let taken = 0;
    let out = "";
    let name: string | undefined;
    const progress = (state: CallProgress["state"]): CallProgress => ({
      taken,
      ...(name !== undefined && { name }),
      arguments: out,
      state,
    });
    while (taken < text.length) {
      const character = text.charAt(taken);
      if (this.#isTold) {
        const place = this.#value.push(character);
        if (place === "after" || place === "failed") return progress("failed");
        taken += 1;
        out += character;
        if (place === "last") return progress("done");
        continue;
      }
      if (character === "{") {
        name = this.#head
          .trim()
          .replace(/\[ARGS\]$/, "")
          .trim();
        if (name === "" || /[\s"]/.test(name)) {
          name = undefined;
          return progress("failed");
        }
        this.#isTold = true;
        this.#value.begin(character);
        continue;
      }
      this.#head += character;
      taken += 1;
      if (this.#head.length > NAME_MAX + BETWEEN.length) return progress("failed");
    }
    return progress("reading");
  }
}
