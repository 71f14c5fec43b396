import { tryParseJson } from "../../../../base/json.ts";
/** The result of scanning one more piece of a tool call. */
export interface CallProgress {
  /** The number of characters of the scanned text that belong to the call. */
  readonly consumed: number;
  /** The tool's name; set once, when the arguments begin, or at the end of a call without arguments. */
  readonly name?: string;
  /** The next part of the arguments' JSON text. */
  readonly arguments: string;
  readonly state: "reading" | "done" | "failed";
}

/**
 * Scans one streamed object `{"name": ..., "arguments": {...}}` in any spelling that JSON allows; `parameters` is a
 * synonym for `arguments`. The arguments' text is returned unchanged.
 *
 * States: open -> key -> colon -> value -> key -> ... -> done; or failed, if the text is not such an object.
 */
export class JsonCallScanner {
  #state: "open" | "key" | "colon" | "value" | "done" | "failed" = "open";
  readonly #value = new JsonValueScanner();
  #isKey = false;
  #key = "";
  #raw = "";
  #name: string | undefined;
  #isNameReported = false;
  /** The arguments of the call, if they precede the name of the tool in the JSON text. */
  #pendingArguments: string | undefined;
  #output = "";
  #reportsName = false;

  push(text: string): CallProgress {
    this.#output = "";
    this.#reportsName = false;
    let consumed = 0;
    while (consumed < text.length && this.#state !== "done" && this.#state !== "failed") {
      if (this.#step(text.charAt(consumed))) consumed += 1;
    }
    const state = this.#state === "done" || this.#state === "failed" ? this.#state : "reading";
    const nameReport = this.#reportsName && this.#name !== undefined ? { name: this.#name } : {};
    return { consumed, ...nameReport, arguments: this.#output, state };
  }

  /**
   * Reads one character. Returns false if the character is not part of the call, or if it has ended a number and must
   * be read again.
   */
  #step(character: string): boolean {
    if (this.#value.isInside) return this.#pushToValue(character);
    if (/\s/.test(character)) return true;
    switch (this.#state) {
      case "open":
        this.#state = character === "{" ? "key" : "failed";
        return this.#state === "key";
      case "key":
        if (character === "}") {
          this.#finish();
          return true;
        }
        if (character === ",") return true;
        if (character !== '"') return this.#fail();
        return this.#beginValue(character, true);
      case "colon":
        if (character !== ":") return this.#fail();
        this.#state = "value";
        return true;
      default:
        return this.#beginValue(character, false);
    }
  }

  #beginValue(character: string, isKey: boolean): boolean {
    this.#isKey = isKey;
    this.#raw = "";
    if (!this.#value.begin(character)) return this.#fail();
    if (this.#isStreamed()) this.#reportName();
    return this.#pushToValue(character);
  }

  #pushToValue(character: string): boolean {
    const place = this.#value.push(character);
    if (place === "failed") return this.#fail();
    if (place !== "after") {
      this.#raw += character;
      if (this.#isStreamed()) this.#output += character;
    }
    if (place !== "inside") this.#onValueEnd();
    return place !== "after";
  }

  /** Returns true if the arguments are streamed: they are an object and the name precedes them. */
  #isStreamed(): boolean {
    return (
      !this.#isKey &&
      this.#name !== undefined &&
      isArgumentsKey(this.#key) &&
      this.#value.firstCharacter === "{"
    );
  }

  #onValueEnd(): void {
    const value = tryParseJson(this.#raw);
    if (this.#isKey) {
      this.#key = typeof value === "string" ? value : "";
      this.#state = "colon";
      return;
    }
    this.#state = "key";
    if (this.#key === "name") {
      if (typeof value === "string" && value !== "") this.#name = value;
      else this.#fail();
    } else if (isArgumentsKey(this.#key) && !this.#isStreamed()) {
      // Some models write the arguments as a JSON string that contains the object, so the content of the string is
      // used.
      this.#pendingArguments = typeof value === "string" ? value : this.#raw;
    }
  }

  #reportName(): void {
    if (this.#isNameReported) return;
    this.#isNameReported = true;
    this.#reportsName = true;
  }

  #finish(): void {
    if (this.#name === undefined) {
      this.#fail();
      return;
    }
    if (!this.#isNameReported) this.#output += this.#pendingArguments ?? "{}";
    this.#reportName();
    this.#state = "done";
  }

  #fail(): boolean {
    this.#state = "failed";
    return false;
  }
}

/** Finds the end of a streamed JSON value; does not validate its contents. */
export class JsonValueScanner {
  firstCharacter = "";
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  isInside = false;

  /**
   * Begins a JSON value. Returns false if no JSON value begins with `character`. If the result is true, the caller must
   * also pass `character` to `push`.
   */
  begin(character: string): boolean {
    if (!/["{[\-0-9tfn]/.test(character)) return false;
    this.firstCharacter = character;
    this.#depth = 0;
    this.#isInString = false;
    this.#isEscaped = false;
    this.isInside = true;
    return true;
  }

  /**
   * Reads one character. Returns `last` if the value ends with this character, and `after` if it ended before the
   * character.
   */
  push(character: string): "inside" | "last" | "after" | "failed" {
    const place = this.#classify(character);
    if (place !== "inside") this.isInside = false;
    return place;
  }

  #classify(character: string): "inside" | "last" | "after" | "failed" {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (character === "\\") this.#isEscaped = true;
      else if (character === '"') {
        this.#isInString = false;
        if (this.#depth === 0) return "last";
      }
      return "inside";
    }
    if (character === '"') {
      this.#isInString = true;
    } else if (character === "{" || character === "[") {
      this.#depth += 1;
    } else if (character === "}" || character === "]") {
      if (this.#depth === 0) return "after";
      this.#depth -= 1;
      if (this.#depth === 0) return "last";
    } else if (this.#depth === 0) {
      if (/[,\s]/.test(character)) return "after";
      if (!/[-+.0-9a-zE]/.test(character)) return "failed";
    }
    return "inside";
  }
}

function isArgumentsKey(key: string): boolean {
  return key === "arguments" || key === "parameters";
}
