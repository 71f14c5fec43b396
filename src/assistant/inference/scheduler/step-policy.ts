import type { RequestPriority } from "../inference-engine.ts";
import type { EmbeddingJob } from "./embedding-job.ts";
import type { Generation, GenerationSlot } from "./generation.ts";
import { countFirstTokens, isDivisible } from "./prompt-pieces.ts";

/**
 * Ageing: while there is interactive work, one background stream (in rotation) joins every n-th decoding step, and
 * every n-th runner call may prefill or embed for a background job. One additional stream costs at most as much as one
 * more decoding step, so n = 32 slows interactive work by 3 %. Only one stream joins, because six slowed it by 12 %.
 */
export const BACKGROUND_EVERY = 32;

/**
 * The number of prompt tokens that a background job may prefill in every n-th runner call while interactive work waits.
 * Eight tokens take no longer than a decoding step with eight streams, so interactive answers are hardly delayed. A
 * piece that may not be divided can have more tokens; the time that it waits grows in proportion.
 */
const AGED_PREFILL_TOKENS = 8;

/**
 * Every n-th prefill or embedding piece belongs to the oldest job; all others belong to the job with the least work
 * left.
 */
const OLDEST_EVERY = 4;

/** The next work of the model's runner: a decoding step, the prefill of a prompt, or an embedding. */
export type RunnerCall =
  /** `members` are the streams of the decoding step, in the order of their KV-cache sequences. */
  | { readonly kind: "step"; readonly members: readonly Generation[] }
  /** `count` is the number of tokens of the piece. */
  | { readonly kind: "prefill"; readonly generation: Generation; readonly count: number }
  | { readonly kind: "embed"; readonly embedding: EmbeddingJob; readonly alone: boolean };

type WorkPiece = Generation | EmbeddingJob;

/**
 * Chooses the next runner call. Interactive work comes before background work; decoding steps alternate with pieces
 * (prefill, embeddings), so that an answer in progress waits for one piece at most.
 */
export class StepPolicy {
  readonly #slots: readonly GenerationSlot[];
  readonly #embeddings: ReadonlySet<EmbeddingJob>;
  readonly #stepAge = new AgeCounter();
  readonly #pieceAge = new AgeCounter();
  #pieces = 0;
  #steps = 0;
  #isStepDue = false;

  constructor(slots: readonly GenerationSlot[], embeddings: ReadonlySet<EmbeddingJob>) {
    this.#slots = slots;
    this.#embeddings = embeddings;
  }

  /** The highest priority of the work that is ready; undefined if there is none. */
  get priority(): RequestPriority | undefined {
    let found: RequestPriority | undefined;
    for (const { owner: generation } of this.#slots) {
      if (!generation || !canRun(generation)) continue;
      if (generation.priority === "interactive") return "interactive";
      found = "background";
    }
    for (const { priority, isOver: over } of this.#embeddings) {
      if (over) continue;
      if (priority === "interactive") return "interactive";
      found = "background";
    }
    return found;
  }

  /**
   * Chooses the next call of the runner, and counts the calls that left background work out. Must be called exactly
   * once for each runner call.
   */
  next(): RunnerCall | undefined {
    const interactive = this.#collectWork("interactive");
    const background = this.#collectWork("background");
    const isFirst = interactive.streams.length + interactive.pieces.length > 0;
    const agedPiece = isFirst ? this.#findAgedPiece(background.pieces) : undefined;
    const agedStep = isFirst && background.streams.length > 0 && this.#stepAge.isDue();

    const pieces = agedPiece ? [agedPiece] : isFirst ? interactive.pieces : background.pieces;
    let members = isFirst ? interactive.streams : background.streams;
    if (agedStep)
      members = [...members, findLongestLeftOut(background.streams)].toSorted(compareBySequence);

    const piece = this.#isStepDue && members.length > 0 ? undefined : this.#pickPiece(pieces);
    this.#isStepDue = piece !== undefined;
    const leaveOutSteps = isFirst && background.streams.length > 0;
    this.#stepAge.count(leaveOutSteps && (piece !== undefined || !agedStep));
    const leaveOutPieces = isFirst && background.pieces.length > 0;
    this.#pieceAge.count(leaveOutPieces && (piece === undefined || !agedPiece));

    if (piece) return toPieceCall(piece, agedPiece !== undefined);
    if (members.length === 0) return undefined;
    this.#steps += 1;
    for (const member of members) member.steppedAt = this.#steps;
    return { kind: "step", members };
  }

  #collectWork(priority: RequestPriority): { streams: Generation[]; pieces: WorkPiece[] } {
    const streams: Generation[] = [];
    const pieces: WorkPiece[] = [];
    for (const { owner: generation } of this.#slots) {
      if (!generation || generation.priority !== priority || !canRun(generation)) continue;
      if (generation.unreadTokens > 0) pieces.push(generation);
      else streams.push(generation);
    }
    for (const embedding of this.#embeddings)
      if (!embedding.isOver && embedding.priority === priority) pieces.push(embedding);
    return { streams, pieces };
  }

  /** Returns the background piece that is to be next although there is interactive work; undefined if none is due. */
  #findAgedPiece(pieces: readonly WorkPiece[]): WorkPiece | undefined {
    const piece = this.#findNextPiece(pieces);
    return piece && this.#pieceAge.isDue(countAgedUnits(piece)) ? piece : undefined;
  }

  #pickPiece(pieces: readonly WorkPiece[]): WorkPiece | undefined {
    const piece = this.#findNextPiece(pieces);
    if (piece) this.#pieces += 1;
    return piece;
  }

  #findNextPiece(pieces: readonly WorkPiece[]): WorkPiece | undefined {
    if (pieces.length === 0) return undefined;
    const key = (this.#pieces + 1) % OLDEST_EVERY === 0 ? getArrival : getRemaining;
    return pieces.reduce((one, other) => (key(other) < key(one) ? other : one));
  }
}

/** Counts the consecutive runner calls that left background work out. */
class AgeCounter {
  #leftOutCount = 0;

  /**
   * Returns true if it is the turn of background work. Work that takes `units` times as long as usual has its turn
   * after `units` times as many calls.
   */
  isDue(units = 1): boolean {
    return this.#leftOutCount >= BACKGROUND_EVERY * units - 1;
  }

  count(leftOut: boolean): void {
    this.#leftOutCount = leftOut ? this.#leftOutCount + 1 : 0;
  }
}

function toPieceCall(piece: WorkPiece, aged: boolean): RunnerCall {
  if (!isGeneration(piece)) return { kind: "embed", embedding: piece, alone: aged };
  const count = aged ? countAgedTokens(piece) : piece.nextPieceTokens;
  return { kind: "prefill", generation: piece, count };
}

/** The duration of a piece of a background job, in units of AGED_PREFILL_TOKENS prefilled tokens. */
function countAgedUnits(piece: WorkPiece): number {
  return isGeneration(piece) ? Math.ceil(countAgedTokens(piece) / AGED_PREFILL_TOKENS) : 1;
}

function countAgedTokens({ slot, nextPieceTokens }: Generation): number {
  return slot && isDivisible(slot.rule, nextPieceTokens)
    ? countFirstTokens(slot.rule, nextPieceTokens, AGED_PREFILL_TOKENS)
    : nextPieceTokens;
}

function isGeneration(piece: WorkPiece): piece is Generation {
  return "unreadTokens" in piece;
}

function canRun(generation: Generation): boolean {
  return !generation.isOver && !generation.events.isFull;
}

function getRemaining(piece: WorkPiece): number {
  return isGeneration(piece) ? piece.unreadTokens : piece.remainingTokens;
}

function getArrival(piece: WorkPiece): number {
  return piece.order;
}

/**
 * Returns the stream that has been left out of the decoding steps for the longest time. `streams` must not be empty.
 */
function findLongestLeftOut(streams: readonly Generation[]): Generation {
  return streams.reduce((one, other) => (other.steppedAt < one.steppedAt ? other : one));
}

function compareBySequence(one: Generation, other: Generation): number {
  return (one.slot?.index ?? 0) - (other.slot?.index ?? 0);
}
