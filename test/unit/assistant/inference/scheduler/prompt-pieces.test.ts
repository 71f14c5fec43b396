import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PieceRule } from "../../../../../src/assistant/inference/runner.ts";
import { findPieceEnd } from "../../../../../src/assistant/inference/scheduler/prompt-pieces.ts";
import {
  chooseSlot,
  SequenceSlot,
} from "../../../../../src/assistant/inference/scheduler/sequence-slot.ts";

const ruleOf = (isExact: boolean): PieceRule => ({
  wideTokens: 128,
  narrowTokensMax: 60,
  groupTokens: 4,
  isExact,
});

/** Returns the pieces in which the first `promptEnd` tokens of a prompt are evaluated after `start` kept tokens. */
function listPieces(rule: PieceRule, promptEnd: number, start = 0): [number, number][] {
  const pieces: [number, number][] = [];
  for (let at = start; at < promptEnd; ) {
    const end = findPieceEnd(rule, at, promptEnd, promptEnd);
    pieces.push([at, end]);
    at = end;
  }
  return pieces;
}

/**
 * The kernel that evaluated a token: `wide` in a large piece, `single` if the token was alone, and otherwise `group` or
 * `rest`, depending on whether four rows were computed together.
 */
type Kernel = "wide" | "group" | "rest" | "single";

/**
 * A KV-cache sequence that records how each of its tokens was evaluated. It knows the limits of llama.cpp's kernels,
 * but not the rule for pieces that is under test.
 */
class RecordingSequence {
  readonly kernels: Kernel[] = [];
  readonly pieces: [number, number][] = [];

  truncate(length: number): number {
    this.kernels.length = Math.min(length, this.kernels.length);
    for (let last = this.pieces.at(-1); last && last[1] > length; last = this.pieces.at(-1)) {
      this.pieces.pop();
      if (last[0] < length) this.pieces.push([last[0], length]);
    }
    return this.kernels.length;
  }

  evaluate(count: number): void {
    const start = this.kernels.length;
    const whole = count - (count % 4);
    for (let at = 0; at < count; at++)
      this.kernels.push(
        count >= 64 ? "wide" : count === 1 ? "single" : at < whole ? "group" : "rest",
      );
    this.pieces.push([start, start + count]);
  }
}

/** One request: its prompt shares `shared` tokens with an earlier request's prompt or whole conversation. */
interface Request {
  readonly earlier: number;
  readonly goesOn: boolean;
  readonly shared: number;
  readonly added: number;
  readonly answer: number;
}

const request: fc.Arbitrary<Request> = fc.record({
  earlier: fc.nat(5),
  goesOn: fc.boolean(),
  shared: fc.oneof(fc.nat(700), fc.constantFrom(60, 64, 100, 127, 128, 129, 256, 300)),
  added: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 400 })),
  answer: fc.nat(60),
});

interface Answered {
  readonly prompt: readonly number[];
  readonly whole: readonly number[];
}

/** The state of a KV-cache sequence when the prompt of a request has been evaluated in it. */
interface EvaluatedPrompt {
  readonly kernels: readonly Kernel[];
  readonly pieces: readonly [number, number][];
  readonly promptEnd: number;
  /**
   * The number of tokens at the beginning that the prompt and the sequence had in common, and how many of these tokens
   * the sequence kept.
   */
  readonly common: number;
  readonly kept: number;
  readonly repeatsAnswer: boolean;
}

/** Runs requests one after the other on `count` sequences. */
async function runHistory(
  rule: PieceRule,
  count: number,
  requests: readonly Request[],
): Promise<readonly EvaluatedPrompt[]> {
  const evaluated: EvaluatedPrompt[] = [];
  const slots = Array.from({ length: count }, (_, index) => new SequenceSlot<true>(index, rule));
  const sequences = slots.map(() => new RecordingSequence());
  const held = slots.map((): { tokens: number[]; generated: boolean[] } => ({
    tokens: [],
    generated: [],
  }));
  const answered: Answered[] = [];
  let nextToken = 1;
  for (const { earlier, goesOn, shared, added, answer } of requests) {
    const before = answered[answered.length - 1 - (earlier % Math.max(1, answered.length))];
    const source = before ? (goesOn ? before.whole : before.prompt) : [];
    const tokens = source.slice(0, goesOn ? source.length : shared);
    for (let each = 0; each < added; each++) tokens.push(nextToken++);
    const needed = { tokens, promptTokens: tokens.length };
    const slot = chooseSlot(slots, needed);
    const sequence = slot && sequences[slot.index];
    const content = slot && held[slot.index];
    if (!slot || !sequence || !content) throw new Error("no sequence is free");
    let common = 0;
    while (common < tokens.length - 1 && content.tokens[common] === tokens[common]) common += 1;
    const repeatsAnswer = content.generated.slice(0, common).includes(true);
    const runner = { truncate: async (_: number, length: number) => sequence.truncate(length) };
    const kept = await slot.truncateFor(runner, needed);
    expect(sequence.kernels).toHaveLength(kept);
    const promptEnd = tokens.length - 1;
    while (slot.length < promptEnd) {
      const size = slot.countNextPiece(needed);
      sequence.evaluate(size);
      slot.append(tokens.slice(slot.length, slot.length + size), tokens.length);
    }
    evaluated.push({
      kernels: [...sequence.kernels],
      pieces: [...sequence.pieces],
      promptEnd,
      common,
      kept,
      repeatsAnswer,
    });
    const whole = [...tokens];
    for (let each = 0; each <= answer; each++) {
      sequence.evaluate(1);
      slot.append([whole[slot.length] ?? 0], tokens.length);
      if (each < answer) whole.push(nextToken++);
    }
    content.tokens = whole.slice(0, slot.length);
    const isKept = content.generated.slice(0, kept);
    content.generated = content.tokens.map((_, at) => isKept[at] ?? at >= tokens.length);
    slot.usedAt = nextToken;
    answered.push({ prompt: tokens, whole });
  }
  return evaluated;
}

const sequenceCount = fc.integer({ min: 1, max: 3 });
const history = fc.array(request, { minLength: 2, maxLength: 12 });
const RUNS = 200;

/** Returns the way in which a prompt is evaluated in an empty sequence. */
function evaluateFresh(rule: PieceRule, promptEnd: number): RecordingSequence {
  const fresh = new RecordingSequence();
  for (const [start, end] of listPieces(rule, promptEnd)) fresh.evaluate(end - start);
  return fresh;
}

describe("the pieces of a prompt", () => {
  it.each([
    [0, []],
    [1, [1]],
    [60, [60]],
    [61, [56, 5]],
    [121, [60, 56, 5]],
    [127, [60, 60, 7]],
    [128, [128]],
    [129, [128, 1]],
    [300, [128, 128, 44]],
  ])(
    "of %i tokens have 128 tokens (wide pieces) while at least 128 are left, and are narrow afterwards",
    (length, sizes) => {
      const pieces = listPieces(ruleOf(false), length).map(([start, end]) => end - start);
      expect(pieces).toEqual(sizes);
    },
  );

  it("never cross a multiple of 128, wherever the first of them begins", () => {
    const property = fc.property(fc.nat(600), fc.nat(600), (start, length) => {
      for (const [from, end] of listPieces(ruleOf(false), start + length, start)) {
        expect(Math.floor(from / 128)).toBe(Math.floor((end - 1) / 128));
        expect(end - from === 128 || end - from <= 60).toBe(true);
      }
    });
    fc.assert(property);
  });

  it("of an answer that lost its sequence are narrow, because its tokens were generated one by one too", () => {
    const sizes: number[] = [];
    for (let at = 128; at < 500; at += sizes.at(-1) ?? 1)
      sizes.push(findPieceEnd(ruleOf(false), at, 150, 500) - at);
    expect(sizes).toEqual([22, 60, 46, 60, 60, 8, 60, 56]);
  });
});

describe("after random requests, a prompt", () => {
  it("has been evaluated by the same kernels as in an empty sequence, unless it continues a cached conversation", async () => {
    const rule = ruleOf(false);
    const property = fc.asyncProperty(sequenceCount, history, async (count, requests) => {
      for (const { kernels, promptEnd, repeatsAnswer } of await runHistory(rule, count, requests))
        expect(repeatsAnswer || kernels).toEqual(
          repeatsAnswer || evaluateFresh(rule, promptEnd).kernels,
        );
    });
    await fc.assert(property, { numRuns: RUNS });
  });

  it("is evaluated again for at most one block of 128 tokens that the sequence already contained", async () => {
    const property = fc.asyncProperty(sequenceCount, history, async (count, requests) => {
      for (const { kept, common } of await runHistory(ruleOf(false), count, requests)) {
        expect(common - kept).toBeLessThanOrEqual(128);
        expect(kept).toBeLessThanOrEqual(common);
      }
    });
    await fc.assert(property, { numRuns: RUNS });
  });

  it("of a deterministic model has been evaluated in exactly the pieces that an empty sequence would use", async () => {
    const rule = ruleOf(true);
    const property = fc.asyncProperty(sequenceCount, history, async (count, requests) => {
      for (const { pieces, promptEnd } of await runHistory(rule, count, requests))
        expect(pieces).toEqual(evaluateFresh(rule, promptEnd).pieces);
    });
    await fc.assert(property, { numRuns: RUNS });
  });
});

/** Returns a sequence with a prompt of `prompt` tokens and an answer of `answer` tokens, all evaluated. */
function answeredSlot(rule: PieceRule, prompt: number, answer: number) {
  const tokens = Array.from({ length: prompt + answer }, (_, at) => at);
  const slot = new SequenceSlot(0, rule);
  for (const [start, end] of listPieces(rule, prompt - 1))
    slot.append(tokens.slice(start, end), prompt);
  for (let at = prompt - 1; at < tokens.length; at++) slot.append(tokens.slice(at, at + 1), prompt);
  return { slot, tokens };
}

describe("a sequence whose conversation continues", () => {
  it("keeps the whole answer by default; for a deterministic model, it keeps only complete pieces of the prompt", () => {
    for (const [isExact, kept] of [
      [false, 350],
      // The last block of the first prompt was evaluated in narrow pieces, and the next prompt completes this block.
      [true, 128],
    ] as const) {
      const { slot, tokens } = answeredSlot(ruleOf(isExact), 250, 100);
      const next = [...tokens, 1_000, 1_001];
      expect(slot.countKept({ tokens: next, promptTokens: next.length })).toBe(kept);
      const again = tokens.slice(0, 250);
      expect(slot.countKept({ tokens: again, promptTokens: 250 })).toBe(249);
    }
  });

  it("keeps a number of tokens that is a multiple of four if the next prompt begins to differ within a narrow piece", () => {
    const { slot, tokens } = answeredSlot(ruleOf(false), 200, 10);
    const other = [...tokens.slice(0, 175), 1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006];
    expect(slot.countKept({ tokens: other, promptTokens: other.length })).toBe(172);
  });
});
