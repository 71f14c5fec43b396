import { stripVTControlCharacters } from "node:util";
import type { BuildOutput } from "./port.ts";

/** The longest line that goes out in one piece, as the engine's own logs cut it. */
const LINE_BYTES_MAX = 16 * 1024;
/** Lines of a step that are kept for the message of its failure. */
const TAIL_LINES = 20;
/** All of them together, with the later ones first to stay. */
const TAIL_BYTES = 1_600;
/** One of them: the end of a minified file in an error must not push the others out. */
const TAIL_LINE_LENGTH = 300;

const piece = new Uint8Array(LINE_BYTES_MAX);
const encoder = new TextEncoder();

/** Puts text that comes in chunks together to lines that a person can read. */
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
    // A bar that redraws itself never ends its line: what it drew before is gone for the reader, too.
    const end = this.#rest.endsWith("\r") ? this.#rest.length - 2 : this.#rest.length;
    this.#rest = this.#rest.slice(this.#rest.lastIndexOf("\r", end) + 1);
    while (this.#rest.length > LINE_BYTES_MAX) {
      const { read } = encoder.encodeInto(this.#rest, piece);
      this.#emit(this.#rest.slice(0, read));
      this.#rest = this.#rest.slice(read);
    }
  }

  /** What came without the end of a line. */
  flush(): void {
    const rest = this.#rest;
    this.#rest = "";
    // The engine ends colours after the end of a line.
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

/** Without colours, redrawn text and control characters. */
function stripControlCharacters(raw: string): string {
  const drawn = raw.replace(/\r+$/, "");
  return stripVTControlCharacters(drawn.slice(drawn.lastIndexOf("\r") + 1)).replace(
    /[^\P{Cc}\t]/gu,
    "",
  );
}

/** The last lines of a step, for the message of its failure. */
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

/** A pull of a base image says something of each layer many times a second: this says it every few seconds. */
const PULL_EVERY_MS = 3_000;
/** No image has more layers (the engine's own limit is 127); several images may be pulled. */
const LAYERS_MAX = 2_000;

/** Condenses what is said of the layers of base images into lines such as "pulling: 34 of 120 MB". */
export class PullProgressLines {
  readonly #layers = new Map<string, { current: number; total: number }>();
  readonly #now: () => number;
  readonly #output: (line: BuildOutput) => void;
  #reportedAtMs = 0;

  constructor(now: () => number, output: (line: BuildOutput) => void) {
    this.#now = now;
    this.#output = output;
  }

  updateLayer(id: string, current: number, total: number): void {
    if (total <= 0 || (!this.#layers.has(id) && this.#layers.size >= LAYERS_MAX)) return;
    this.#layers.set(id, { current: Math.min(current, total), total });
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
