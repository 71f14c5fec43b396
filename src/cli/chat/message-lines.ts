const FENCE = '"""';

/**
 * Makes messages of the lines that a person types: a line is a message, but for one that ends in a
 * backslash, which goes on in the next; and what stands between `"""` and `"""`, which may hold anything.
 * Lines that were pasted belong to one message.
 */
export class MessageLines {
  readonly #lines: string[] = [];
  #isFenced = false;

  /** Whether a message has begun that is not whole yet. */
  get isOpen(): boolean {
    return this.#lines.length > 0 || this.#isFenced;
  }

  /** The message that this line ends; undefined where more has to come. */
  add(line: string, isPasted = false): string | undefined {
    if (this.#isFenced) return this.#addFencedLine(line);
    if (!this.isOpen && line.trimStart().startsWith(FENCE)) {
      this.#isFenced = true;
      const rest = line.trimStart().slice(FENCE.length);
      return rest === "" ? undefined : this.#addFencedLine(rest);
    }
    const isContinued = line.endsWith("\\") && !isPasted;
    this.#lines.push(isContinued ? line.slice(0, -1) : line);
    return isContinued || isPasted ? undefined : this.#takeMessage();
  }

  /** Forgets what has been begun. */
  clear(): void {
    this.#lines.length = 0;
    this.#isFenced = false;
  }

  #addFencedLine(line: string): string | undefined {
    const end = line.trimEnd();
    if (!end.endsWith(FENCE)) {
      this.#lines.push(line);
      return undefined;
    }
    const last = end.slice(0, -FENCE.length);
    if (last !== "") this.#lines.push(last);
    return this.#takeMessage();
  }

  #takeMessage(): string {
    const text = this.#lines.join("\n");
    this.clear();
    return text;
  }
}
