import type { PieceRule } from "../runner.ts";

/**
 * A piece: adjacent tokens of a KV-cache sequence that one runner call evaluated together. The engine rounds
 * differently for wide and for narrow pieces; see `PieceRule`.
 */
export interface Piece {
  readonly start: number;
  /** The index after the last token that is in a full group; see `PieceRule.groupTokens`. */
  readonly groupsEnd: number;
  /** The index after the last token. */
  readonly end: number;
  /** True if the tokens were generated, not part of a prompt. */
  readonly isGenerated: boolean;
}

export function createPiece(
  { groupTokens }: PieceRule,
  start: number,
  end: number,
  isGenerated: boolean,
): Piece {
  return { start, groupsEnd: end - ((end - start) % groupTokens), end, isGenerated };
}

/**
 * Returns the piece without the tokens from index `end` on. Returns undefined if the tokens before `end` would be
 * rounded differently if they were a piece of their own.
 */
export function cutPiece(rule: PieceRule, piece: Piece, end: number): Piece | undefined {
  if (end >= piece.end) return piece;
  if (end <= piece.start) return undefined;
  if (!piece.isGenerated && !isDivisible(rule, piece.end - piece.start)) return undefined;
  return { ...piece, groupsEnd: Math.min(piece.groupsEnd, end), end };
}

/**
 * Returns the end of the piece that begins at index `start`. `promptEnd` is the number of tokens of the prompt that are
 * prefilled, which is all but its last one. The tokens after them belong to an answer that lost its KV-cache sequence.
 * These tokens were evaluated one by one before, so they are now evaluated in narrow pieces, which the engine rounds in
 * the same way.
 */
export function findPieceEnd(
  rule: PieceRule,
  start: number,
  promptEnd: number,
  end: number,
): number {
  const { wideTokens, narrowTokensMax } = rule;
  const inBlock = start % wideTokens;
  if (inBlock === 0 && start + wideTokens <= promptEnd) return start + wideTokens;
  const limit = Math.min(start < promptEnd ? promptEnd : end, start - inBlock + wideTokens);
  return start + countFirstTokens(rule, limit - start, narrowTokensMax);
}

/**
 * Returns how many of `tokens` tokens the next narrow piece evaluates, at most `most`. It avoids that a single token is
 * left for the last piece, because a single token is rounded differently.
 */
export function countFirstTokens({ groupTokens }: PieceRule, tokens: number, most: number): number {
  if (tokens - most !== 1 || most <= groupTokens || groupTokens === 1)
    return Math.min(tokens, most);
  return most - groupTokens;
}

/**
 * Returns true if a piece with this number of tokens can be cut: its first tokens would be rounded in the same way if
 * they were a piece of their own.
 */
export function isDivisible({ isExact, narrowTokensMax }: PieceRule, tokens: number): boolean {
  return !isExact && tokens <= narrowTokensMax;
}

/**
 * Returns how many tokens of a KV-cache sequence a prompt keeps. `held` are the pieces of the sequence, `common` is the
 * number of leading tokens that the sequence and the prompt have in common, and `promptEnd` is as in `findPieceEnd`.
 *
 * The tokens that are kept, and those that are prefilled after them, have the widths that they would have in an empty
 * sequence. There is one exception unless the rule is exact: a conversation that goes on keeps its answers, whose
 * tokens were evaluated one by one, and everything before them.
 */
export function countKept(
  rule: PieceRule,
  held: readonly Piece[],
  common: number,
  promptEnd: number,
): number {
  return rule.isExact
    ? countSamePieces(rule, held, common, promptEnd)
    : countSameWidths(rule, held, common, promptEnd);
}

/** Counts the tokens of the pieces that are the same as in an empty sequence, up to the first one that differs. */
function countSamePieces(
  rule: PieceRule,
  held: readonly Piece[],
  common: number,
  promptEnd: number,
): number {
  let kept = 0;
  for (const { start, end, isGenerated } of held) {
    if (isGenerated || start !== kept || start >= promptEnd || end > common) break;
    if (end !== findPieceEnd(rule, start, promptEnd, promptEnd)) break;
    kept = end;
  }
  return kept;
}

/** Counts the tokens whose width is the same as in an empty sequence, down to an index at which a piece may begin. */
function countSameWidths(
  rule: PieceRule,
  held: readonly Piece[],
  common: number,
  promptEnd: number,
): number {
  const { groupTokens, wideTokens } = rule;
  const answerEnd = findAnswerEnd(rule, held, common);
  const mustBeWide = (index: number): boolean => {
    const blockStart = index - (index % wideTokens);
    return blockStart >= answerEnd && blockStart + wideTokens <= promptEnd;
  };
  const commonPrompt = Math.min(common, promptEnd);
  const promptGroupsEnd = promptEnd - (promptEnd % groupTokens);
  let same = answerEnd;
  for (const { start, groupsEnd, end } of held) {
    if (end <= answerEnd) continue;
    if (start !== same || start >= commonPrompt) break;
    if (end - start > rule.narrowTokensMax) {
      if (end > commonPrompt || !mustBeWide(start)) break;
      same = end;
      continue;
    }
    if (mustBeWide(start)) break;
    // The tokens after the last full group of a piece are rounded in the same way only if they are the last tokens of
    // this prompt, too.
    const isLast = groupsEnd === promptGroupsEnd && end === promptEnd && end <= common;
    const isAlone = end - start === 1 && start % wideTokens !== 0 && groupTokens > 1;
    same = isLast && !isAlone ? end : Math.min(groupsEnd, commonPrompt, promptGroupsEnd);
  }
  if (same === promptEnd || same <= answerEnd) return same;
  const blockStart = same - (same % wideTokens);
  if (mustBeWide(same)) return blockStart;
  const kept = same - (same % groupTokens);
  const leavesOne = promptEnd - kept === 1 && kept > blockStart && groupTokens > 1;
  return Math.max(answerEnd, leavesOne ? kept - groupTokens : kept);
}

/**
 * Returns the end of the tokens that are kept because the prompt repeats an answer: the answer, and the rest of the
 * block of `wideTokens` tokens in which the answer ends, because that block cannot be a wide piece anyway. Returns 0 if
 * the prompt repeats no answer.
 */
function findAnswerEnd({ wideTokens }: PieceRule, held: readonly Piece[], common: number): number {
  const answer = held.findLast(({ start, isGenerated }) => isGenerated && start < common);
  if (!answer) return 0;
  const last = answer.end - 1;
  return Math.min(last - (last % wideTokens) + wideTokens, common);
}
