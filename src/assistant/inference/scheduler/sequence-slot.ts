import type { PieceRule, Runner, Token } from "../runner.ts";
import { countKept, createPiece, cutPiece, findPieceEnd, type Piece } from "./prompt-pieces.ts";

/** The tokens that a generation needs in its KV-cache sequence. */
export interface NeededTokens {
  /** The prompt and the answer so far. A decoding step evaluates the last one, so it is never kept. */
  readonly tokens: readonly Token[];
  readonly promptTokens: number;
}

/** One KV-cache sequence of the runner, with its owner and the tokens that the sequence holds. */
export class SequenceSlot<Owner = unknown> {
  readonly index: number;
  readonly rule: PieceRule;
  /** The generation that owns the KV-cache sequence; set until the finished generation's stream is closed. */
  owner: Owner | undefined;
  /**
   * A number that is higher for slots that were released later; 0 if the slot was never used. The slot with the lowest
   * number is reused first.
   */
  usedAt = 0;
  readonly #tokens: Token[] = [];
  #pieces: Piece[] = [];
  #isCertain = true;

  constructor(index: number, rule: PieceRule) {
    this.index = index;
    this.rule = rule;
  }

  /** The number of tokens that the KV-cache sequence holds. */
  get length(): number {
    return this.#tokens.length;
  }

  /**
   * Adds tokens that one runner call has evaluated. `promptTokens` is the number of tokens of the generation's prompt;
   * the tokens after them were generated.
   */
  append(tokens: readonly Token[], promptTokens: number): void {
    const start = this.#tokens.length;
    for (const token of tokens) this.#tokens.push(token);
    const answerStart = Math.min(Math.max(start, promptTokens), this.length);
    this.#addPiece(start, answerStart, false);
    this.#addPiece(answerStart, this.length, true);
  }

  /** Marks the contents of the KV-cache sequence as unknown after a failed evaluation. */
  invalidate(): void {
    this.#isCertain = false;
    this.#cut(0);
  }

  /** Returns the number of tokens of the next piece that `needed` has to prefill; 0 if there is none. */
  countNextPiece({ tokens, promptTokens }: NeededTokens): number {
    const end = findPieceEnd(this.rule, this.length, promptTokens - 1, tokens.length - 1);
    return end - this.length;
  }

  /** Returns true if the KV-cache sequence holds only tokens with which `needed` begins. */
  isPrefixOf({ tokens }: NeededTokens): boolean {
    return this.#countCommon(tokens) === this.length;
  }

  /** Counts the leading tokens that the KV-cache sequence holds and that `needed` keeps; see `countKept`. */
  countKept({ tokens, promptTokens }: NeededTokens): number {
    return countKept(this.rule, this.#pieces, this.#countCommon(tokens), promptTokens - 1);
  }

  /** Erases all tokens that `needed` does not keep; resolves to the number of tokens that remain. */
  async truncateFor(runner: Pick<Runner, "truncate">, needed: NeededTokens): Promise<number> {
    let kept = this.countKept(needed);
    while (!this.#isCertain || kept < this.length) {
      const left = await runner.truncate(this.index, kept);
      this.#isCertain = true;
      this.#cut(left);
      // The runner may have erased more than it was asked to, also a part of a piece.
      kept = this.countKept(needed);
    }
    return kept;
  }

  #countCommon(tokens: readonly Token[]): number {
    const most = Math.min(this.#tokens.length, tokens.length - 1);
    let length = 0;
    while (length < most && this.#tokens[length] === tokens[length]) length += 1;
    return length;
  }

  #addPiece(start: number, end: number, isGenerated: boolean): void {
    if (start === end) return;
    const last = this.#pieces.at(-1);
    // Generated tokens are evaluated one by one, and form one entry.
    const isMore = isGenerated && last?.isGenerated === true;
    if (isMore) this.#pieces.pop();
    this.#pieces.push(createPiece(this.rule, isMore ? last.start : start, end, isGenerated));
  }

  #cut(length: number): void {
    this.#tokens.length = length;
    this.#pieces = this.#pieces.flatMap((piece) => cutPiece(this.rule, piece, length) ?? []);
  }
}

/**
 * Chooses a free KV-cache sequence for a generation: the one whose tokens are useful for most of the prompt. Its tokens
 * must be useful for at least half of the prompt, or must all be useful. Otherwise, reusing a few tokens, such as the
 * start of a system prompt, would save less than another conversation would lose, and the least recently used sequence
 * is chosen. Undefined if no sequence is free.
 */
export function chooseSlot<Owner>(
  slots: readonly SequenceSlot<Owner>[],
  needed: NeededTokens,
): SequenceSlot<Owner> | undefined {
  let best: SequenceSlot<Owner> | undefined;
  let bestKept = 0;
  let oldest: SequenceSlot<Owner> | undefined;
  for (const slot of slots) {
    if (slot.owner) continue;
    if (!oldest || slot.usedAt < oldest.usedAt) oldest = slot;
    const kept = slot.countKept(needed);
    if (kept * 2 < needed.tokens.length && !slot.isPrefixOf(needed)) continue;
    if (kept === 0 || kept < bestKept) continue;
    if (kept === bestKept && best && best.usedAt <= slot.usedAt) continue;
    best = slot;
    bestKept = kept;
  }
  return best ?? oldest;
}
