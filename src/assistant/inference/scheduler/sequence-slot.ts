import type { Runner, Token } from "../runner.ts";

/** One sequence of the runner: what it holds, and for whom. */
export class SequenceSlot<Owner = unknown> {
  readonly index: number;
  /** Who has it; it stays so after the end until the stream is closed. */
  owner: Owner | undefined;
  /** Grows with each use; 0: never used. */
  usedAt = 0;
  readonly #tokens: Token[] = [];
  #isCertain = true;

  constructor(index: number) {
    this.index = index;
  }

  /** How many tokens it holds. */
  get length(): number {
    return this.#tokens.length;
  }

  append(tokens: readonly Token[]): void {
    for (const token of tokens) this.#tokens.push(token);
  }

  /** An evaluation failed: nobody knows what the sequence holds. */
  invalidate(): void {
    this.#isCertain = false;
    this.#tokens.length = 0;
  }

  /** How many tokens of `prompt` are there and need not be evaluated; the last one always must be. */
  countCommonPrefix(prompt: readonly Token[]): number {
    const most = Math.min(this.#tokens.length, prompt.length - 1);
    let length = 0;
    while (length < most && this.#tokens[length] === prompt[length]) length += 1;
    return length;
  }

  /** Erases what is no beginning of `prompt`; resolves to how many tokens remain. */
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
 * The free sequence that saves the most: the longest beginning in common with the prompt, where that is
 * half of the prompt or all that the sequence holds. A shorter one (a system prompt's first words) is
 * not worth what another conversation would lose; then the one goes that was not used for longest.
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
