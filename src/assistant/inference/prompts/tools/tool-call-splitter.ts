import type { ToolCall } from "../../runner.ts";
import { findLengthBeforeMarker, findPartialMarkerLength } from "../partial-marker.ts";
import { JsonCallScanner } from "./json-call-scanner.ts";
import { NamedCallScanner } from "./named-call-scanner.ts";
import type { ToolFormat } from "./tool-format.ts";

export type CallPart =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "call";
      readonly index: number;
      readonly start?: { readonly id: string; readonly name: string };
      readonly arguments: string;
    };

/**
 * Separators and closing tags that may follow a tool call in a model's answer. They are not part of the answer's text.
 */
const callClosers = ["</tool_call>", ",", "]", ";"];

/** A control token that Llama 3 may write before a call. */
const PYTHON_TAG = "<|python_tag|>";

export interface ToolCallSplitterOptions {
  readonly format: ToolFormat;
  readonly names: ReadonlySet<string>;
  readonly newId: () => string;
}

/**
 * Separates the tool calls of a streamed answer from its text. Text that looks like a call at first but turns out not
 * to be one is emitted as text.
 *
 * States: text -> call (after a marker) -> between -> call -> ...; text again if anything else follows a call.
 */
export class ToolCallSplitter {
  readonly #options: ToolCallSplitterOptions;
  readonly #calls: { id: string; name: string; arguments: string }[] = [];
  #state: "text" | "between" | "call" = "text";
  #held = "";
  /** The text of the current call, which is emitted as text if it turns out not to be a call. */
  #raw = "";
  #scanner: JsonCallScanner | NamedCallScanner = new JsonCallScanner();
  #isNameReported = false;
  /** True at the start of the answer: formats without a marker allow a call only there. */
  #canBegin = true;

  constructor(options: ToolCallSplitterOptions) {
    this.#options = options;
  }

  get calls(): readonly ToolCall[] {
    return this.#calls;
  }

  push(text: string): readonly CallPart[] {
    this.#held += text;
    const parts: CallPart[] = [];
    let before: string;
    do {
      before = `${this.#state} ${this.#held.length}`;
      if (this.#state === "text") this.#readText(parts);
      else if (this.#state === "between") this.#readBetween(parts);
      else this.#readCall(parts);
    } while (before !== `${this.#state} ${this.#held.length}`);
    return parts;
  }

  /**
   * Returns the text that is still held back. Call this method when the answer has ended. If the answer was cut off,
   * the beginning of a call is dropped, so that it does not appear as text.
   */
  end(isCut: boolean): readonly CallPart[] {
    const isOpen = this.#state === "call" && !this.#isNameReported;
    const text = isOpen ? this.#raw + this.#held : this.#state === "text" ? this.#held : "";
    this.#held = "";
    this.#raw = "";
    if (text === "" || (isCut && this.#mayBeginCall(text, isOpen))) return [];
    return [{ kind: "text", text }];
  }

  /** Returns true if the last text of an answer may be the beginning of a call. */
  #mayBeginCall(text: string, isOpen: boolean): boolean {
    const { format, names } = this.#options;
    if (format.marker !== undefined)
      return isOpen || findPartialMarkerLength(text, format.marker) > 0;
    // In a format without a marker, only JSON that begins with the name of a tool can be a call. Any other JSON object
    // is the answer itself.
    const beginnings = [PYTHON_TAG, ...[...names].map((name) => `{"name":${JSON.stringify(name)}`)];
    const squeezed = text.replaceAll(/\s/g, "");
    return (
      squeezed !== "" &&
      beginnings.some((one) => one.startsWith(squeezed) || squeezed.startsWith(one))
    );
  }

  #readText(parts: CallPart[]): void {
    const { marker } = this.#options.format;
    if (marker === undefined) {
      this.#readTextOrObject(parts);
      return;
    }
    const at = this.#held.indexOf(marker);
    const end =
      at === -1
        ? findLengthBeforeMarker(this.#held, marker)
        : this.#held.slice(0, at).trimEnd().length;
    if (end > 0) parts.push({ kind: "text", text: this.#held.slice(0, end) });
    if (at === -1) {
      this.#held = this.#held.slice(end);
      return;
    }
    this.#raw = this.#held.slice(end, at + marker.length);
    this.#held = this.#held.slice(at + marker.length);
    this.#beginCall();
  }

  #readTextOrObject(parts: CallPart[]): void {
    if (this.#canBegin) {
      const start = this.#held.trimStart();
      const text = start.startsWith(PYTHON_TAG)
        ? start.slice(PYTHON_TAG.length).trimStart()
        : start;
      if (text === "" || PYTHON_TAG.startsWith(text)) return;
      this.#canBegin = false;
      if (text.startsWith("{")) {
        this.#raw = this.#held.slice(0, this.#held.length - text.length);
        this.#held = text;
        this.#beginCall();
        return;
      }
    }
    if (this.#held !== "") parts.push({ kind: "text", text: this.#held });
    this.#held = "";
  }

  #readBetween(parts: CallPart[]): void {
    const { format } = this.#options;
    let text = this.#held.trimStart();
    for (;;) {
      const closer = callClosers.find((one) => text.startsWith(one));
      if (closer === undefined) break;
      text = text.slice(closer.length).trimStart();
    }
    const openers = [
      ...(format.marker === undefined ? [] : [format.marker]),
      ...(format.isObject ? ["{"] : []),
    ];
    const opener = openers.find((one) => text.startsWith(one));
    if (opener !== undefined) {
      this.#raw = opener === "{" ? "" : opener;
      this.#held = opener === "{" ? text : text.slice(opener.length);
      this.#beginCall();
    } else if ([...openers, ...callClosers].some((one) => one.startsWith(text))) {
      this.#held = text;
    } else {
      this.#held = text;
      this.#state = "text";
      if (format.marker === undefined) parts.push({ kind: "text", text: this.#takeHeld() });
    }
  }

  #beginCall(): void {
    this.#scanner = this.#options.format.isObject ? new JsonCallScanner() : new NamedCallScanner();
    this.#isNameReported = false;
    this.#state = "call";
  }

  #readCall(parts: CallPart[]): void {
    const { format, names, newId } = this.#options;
    // If the format encloses all calls in a list, a `[` follows the marker, such as `[TOOL_CALLS]`. The `[` belongs to
    // the call and not to the answer's text.
    if (format.open !== "" && this.#raw.trimEnd().endsWith(format.marker ?? "")) {
      const text = this.#held.trimStart();
      if (text === "") return;
      if (text.startsWith("[")) {
        this.#raw += this.#held.slice(0, this.#held.length - text.length + 1);
        this.#held = text.slice(1);
      }
    }
    if (this.#held === "") return;
    const progress = this.#scanner.push(this.#held);
    this.#raw += this.#held.slice(0, progress.consumed);
    this.#held = this.#held.slice(progress.consumed);
    const { name } = progress;
    // In a format without a marker before calls, a JSON object whose `name` is not the name of a tool is part of the
    // answer's text.
    const isNone = name !== undefined && format.marker === undefined && !names.has(name);
    if (isNone || (progress.state === "failed" && !this.#isNameReported)) {
      parts.push({ kind: "text", text: this.#raw + this.#takeHeld() });
      this.#raw = "";
      this.#state = "text";
      return;
    }
    if (name !== undefined) {
      this.#isNameReported = true;
      const call = { id: newId(), name, arguments: progress.arguments };
      this.#calls.push(call);
      const index = this.#calls.length - 1;
      parts.push({
        kind: "call",
        index,
        start: { id: call.id, name },
        arguments: progress.arguments,
      });
    } else if (progress.arguments !== "") {
      const index = this.#calls.length - 1;
      const call = this.#calls[index];
      if (call !== undefined) call.arguments += progress.arguments;
      parts.push({ kind: "call", index, arguments: progress.arguments });
    }
    if (progress.state !== "reading") this.#state = "between";
  }

  #takeHeld(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }
}
