/** A line was longer than allowed. Nothing after it can be understood. */
export class FrameTooLargeError extends Error {}

const LINE_END = 0x0a;

/**
 * Cuts a stream of bytes into lines, holding no more than one line's limit. The SDK's ReadBuffer would do
 * the same, but counts what came in one piece against the limit, copies all of it for each piece, and takes
 * bytes that are no UTF-8 for text.
 */
export class FrameSplitter {
  readonly #bytesMax: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * The lines that `chunk` completes, one at a time, so that a reader that has seen enough stops; empty lines
   * are left out. Throws FrameTooLargeError, and TypeError for a line that is not UTF-8.
   */
  *split(chunk: Buffer): Generator<string> {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_END, from);
      const part = chunk.subarray(from, end === -1 ? undefined : end);
      this.#bytes += part.length;
      if (this.#bytes > this.#bytesMax) {
        this.clear();
        throw new FrameTooLargeError();
      }
      if (part.length > 0) this.#parts.push(part);
      if (end === -1) return;
      const line = this.#parts.length === 1 && this.#parts[0] ? this.#parts[0] : this.#joinParts();
      this.clear();
      const text = this.#decoder.decode(line).trimEnd();
      if (text !== "") yield text;
      from = end + 1;
    }
  }

  clear(): void {
    this.#parts = [];
    this.#bytes = 0;
  }

  #joinParts(): Buffer {
    return Buffer.concat(this.#parts, this.#bytes);
  }
}
