import { type CallProgress, JsonValueScanner } from "./json-call-scanner.ts";

/** The maximum length of the name in a call, longer than any valid tool name. */
const NAME_MAX = 200;
const ARGUMENTS_MARKER = "[ARGS]";

/** Scans one streamed call `name[ARGS]{...}` after its marker. */
export class NamedCallScanner {
  readonly #value = new JsonValueScanner();
  #head = "";
  #isNameReported = false;

  push(text: string): CallProgress {
    let consumed = 0;
    let output = "";
    let name: string | undefined;
    const progress = (state: CallProgress["state"]): CallProgress => ({
      consumed,
      ...(name !== undefined && { name }),
      arguments: output,
      state,
    });
    while (consumed < text.length) {
      const character = text.charAt(consumed);
      if (this.#isNameReported) {
        const place = this.#value.push(character);
        if (place === "after" || place === "failed") return progress("failed");
        consumed += 1;
        output += character;
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
        this.#isNameReported = true;
        this.#value.begin(character);
        continue;
      }
      this.#head += character;
      consumed += 1;
      if (this.#head.length > NAME_MAX + ARGUMENTS_MARKER.length) return progress("failed");
    }
    return progress("reading");
  }
}
