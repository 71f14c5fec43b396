import type { Runner, Token } from "../runner.ts";

/** One KV-cache sequence of the runner, with its owner and the tokens that the sequence holds. */
export class SequenceSlot<Owner = unknown> {
  readonly index: number;
  /** The generation that owns the KV-cache sequence; set until the finished generation's stream is closed. */
  owner: Owner | undefined;
  /**
   * A number that is higher for slots that were released later; 0 if the slot was never used. The slot with the lowest
   * number is reused first.
   */
  usedAt = 0;
  readonly #tokens: Token[] = [];
  #isCertain = true;

  constructor(index: number) {
    this.index = index;
  }

  /** The number of tokens that the KV-cache sequence holds. */
  get length(): number {
    return this.#tokens.length;
  }

  append(tokens: readonly Token[]): void {
    for (const token of tokens) this.#tokens.push(token);
  }

  /** Marks the contents of the KV-cache sequence as unknown after a failed evaluation. */
  invalidate(): void {
    this.#isCertain = false;
    this.#tokens.length = 0;
  }

  /**
   * Counts the leading tokens of `prompt` that the KV-cache sequence holds. The prompt's last token is never counted,
   * because a decoding step evaluates it.
   */
  countCommonPrefix(prompt: readonly Token[]): number {
    const most = Math.min(this.#tokens.length, prompt.length - 1);
    let length = 0;
    while (length < most && this.#tokens[length] === prompt[length]) length += 1;
    return length;
  }

  /** Erases all tokens after the common prefix with `prompt`; resolves to the number of tokens that remain. */
  async truncateToPrefix(runner: Runner, prompt: readonly Token[]): Promise<number> {
    const common = this.countCommonPrefix(prompt);
    if (this.#isCertain && common === this.#tokens.length) return common;
    const kept = await runner.truncate(this.index, common);
    this.#isCertain = true;
    this.#tokens.length = kept;
    return kept;
  }
}

/**
 * Chooses the free KV-cache sequence with the longest common prefix, if that prefix is at least half of the prompt, or
 * everything that the sequence holds. A shorter prefix (the start of a system prompt) saves less than another
 * conversation would lose; then the least recently used sequence is chosen. Undefined if none is free.
 */
export function chooseSlot<Owner>(
  slots: readonly SequenceSlot<Owner>[],
  prompt: readonly Token[],
): SequenceSlot<Owner> | undefined {
  let longest: SequenceSlot<Owner> | undefined;
  let longestCommon = 0;
  let oldest: SequenceSlot<Owner> | undefined;
  for (const slot of slots) {
    if (slot.owner) continue;
    if (!oldest || slot.usedAt < oldest.usedAt) oldest = slot;
    const common = slot.countCommonPrefix(prompt);
    if (common * 2 < prompt.length && common < slot.length) continue;
    if (common === 0 || common < longestCommon) continue;
    if (common === longestCommon && longest && longest.usedAt <= slot.usedAt) continue;
    longest = slot;
    longestCommon = common;
  }
  return longest ?? oldest;
}
