import { stripVTControlCharacters } from "node:util";
import { trimEndOf } from "../../base/trim-end-of.ts";
import type { BuildOutput } from "./port.ts";

/** The longest line that is not split, as in the engine's own logs. */
const LINE_BYTES_MAX = 16 * 1024;
/** The maximum number of lines at the end of a step's output that are kept for the step's error message. */
const TAIL_LINES = 20;
/** The limit for all kept lines together; later lines take precedence. */
const TAIL_BYTES = 1_600;
/** The limit for one kept line, because the end of a minified file must not displace the other lines. */
const TAIL_LINE_LENGTH = 300;

const piece = new Uint8Array(LINE_BYTES_MAX);
const encoder = new TextEncoder();

/** Assembles chunks of text into lines. */
export class LineAssembler {
  readonly #line: (text: string) => void;
  #rest = "";

  constructor(line: (text: string) => void) {
    this.#line = line;
  }

  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#emit(line);
    // A progress bar overwrites its line with \r, so only its last state is kept.
    const end = this.#rest.endsWith("\r") ? this.#rest.length - 2 : this.#rest.length;
    this.#rest = this.#rest.slice(this.#rest.lastIndexOf("\r", end) + 1);
    while (this.#rest.length > LINE_BYTES_MAX) {
      const { read } = encoder.encodeInto(this.#rest, piece);
      this.#emit(this.#rest.slice(0, read));
      this.#rest = this.#rest.slice(read);
    }
  }

  /** Emits the remaining text, which has no final newline. */
  flush(): void {
    const rest = this.#rest;
    this.#rest = "";
    // After the last newline, the engine may send a control sequence that resets colours. It contains no text and is
    // not emitted.
    if (stripControlCharacters(rest) !== "") this.#emit(rest);
  }

  #emit(raw: string): void {
    let text = stripControlCharacters(raw);
    do {
      const { read } = encoder.encodeInto(text, piece);
      this.#line(text.slice(0, read));
      text = text.slice(read);
    } while (text !== "");
  }
}

/** Removes colours, overwritten text and control characters. */
function stripControlCharacters(raw: string): string {
  const drawn = trimEndOf(raw, "\r");
  return stripVTControlCharacters(drawn.slice(drawn.lastIndexOf("\r") + 1)).replace(
    /[^\P{Cc}\t]/gu,
    "",
  );
}

/** The last lines of a step, for its error message. */
export class OutputTail {
  readonly #lines: string[] = [];

  add(text: string): void {
    const line = text.trim();
    if (line === "") return;
    this.#lines.push(line.length > TAIL_LINE_LENGTH ? `${line.slice(0, TAIL_LINE_LENGTH)}…` : line);
    if (this.#lines.length > TAIL_LINES) this.#lines.shift();
  }

  clear(): void {
    this.#lines.length = 0;
  }

  lines(): string[] {
    let bytes = 0;
    const kept = this.#lines.toReversed().filter((line) => {
      bytes += Buffer.byteLength(line) + 3;
      return bytes <= TAIL_BYTES;
    });
    return kept.toReversed();
  }
}

/** The interval of progress lines: a pull of a base image reports each layer many times a second. */
const PULL_EVERY_MS = 3_000;
/**
 * The maximum number of layers that are tracked. It exceeds the engine's limit of 127 for one image, because several
 * images may be pulled.
 */
const LAYERS_MAX = 2_000;

/** Condenses the progress of base images' layers into lines such as "pulling: 34 of 120 MB". */
export class PullProgressLines {
  readonly #layers = new Map<string, { current: number; total: number }>();
  readonly #now: () => number;
  readonly #output: (line: BuildOutput) => void;
  readonly #onProgress: () => void;
  #reportedAtMs = 0;

  /** `onProgress` is called when a layer has made progress. */
  constructor(now: () => number, output: (line: BuildOutput) => void, onProgress: () => void) {
    this.#now = now;
    this.#output = output;
    this.#onProgress = onProgress;
  }

  updateLayer(id: string, current: number, total: number): void {
    if (total <= 0 || (!this.#layers.has(id) && this.#layers.size >= LAYERS_MAX)) return;
    this.#layers.set(id, { current: Math.min(current, total), total });
    this.#onProgress();
    if (this.#reportedAtMs === 0) this.#reportedAtMs = this.#now();
    if (this.#now() - this.#reportedAtMs < PULL_EVERY_MS) return;
    this.#reportedAtMs = this.#now();
    let done = 0;
    let all = 0;
    for (const item of this.#layers.values()) {
      done += item.current;
      all += item.total;
    }
    this.#output({ type: "log", text: `pulling: ${megabytes(done)} of ${megabytes(all)} MB` });
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
}
