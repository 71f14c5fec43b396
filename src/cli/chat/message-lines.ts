const FENCE = '"""';

/**
 * Combines typed lines into messages. Usually each line is one message. A backslash at the end of a line continues the
 * message on the next line. `"""` begins and ends a message of several lines. Pasted lines are one message.
 */
export class MessageLines {
  readonly #lines: string[] = [];
  #isFenced = false;

  /** True while a message is incomplete. */
  get isOpen(): boolean {
    return this.#lines.length > 0 || this.#isFenced;
  }

  /** Adds a line. Returns the message if it is complete, else undefined. */
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

  /** Discards an incomplete message. */
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
