/** Thrown for a line that exceeds the limit. The rest of the stream cannot be split into lines. */
export class FrameTooLargeError extends Error {}

const LINE_END = 0x0a;

/**
 * Splits a byte stream into lines and buffers at most one line of the longest allowed length. The SDK's ReadBuffer
 * has a similar purpose, but counts a whole chunk against the limit, copies its buffer for each chunk, and accepts
 * bytes that are not UTF-8.
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
   * Adds `chunk` and yields each non-empty line that is then complete. The lines come one at a time, so that the reader
   * can stop early. Throws FrameTooLargeError, or TypeError for a line that is not UTF-8.
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
