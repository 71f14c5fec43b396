import type { Priority } from "../engine.ts";
import type { Embedding } from "./embedding.ts";
import type { Generation, Seat } from "./generation.ts";

/**
 * Ageing: while interactive work goes on, one background stream joins one step in so many, each in its
 * turn, and one piece in so many turns is theirs. A stream more in a step costs up to as much as a step
 * alone: 3 % at one in 32. All of six at a time cost as much as five steps, which was 12 %.
 */
export const BACKGROUND_EVERY = 32;

/** An aged prefill piece should take no longer than a step: as many tokens as eight streams have. */
const AGED_PREFILL_TOKENS = 8;

/** One piece in so many goes to whoever came first, all others to who is done soonest. */
const OLDEST_EVERY = 4;

/** One call of the runner. */
export type Turn =
  /** In the order of their sequences. */
  | { readonly kind: "step"; readonly members: readonly Generation[] }
  | { readonly kind: "prefill"; readonly generation: Generation; readonly tokensMax: number }
  | { readonly kind: "embed"; readonly embedding: Embedding; readonly alone: boolean };

type Piece = Generation | Embedding;

/**
 * Who is released next. Interactive work goes before background; steps and pieces (prefill, embeddings)
 * take turns, so that whoever is in the middle of an answer waits for one piece at most.
 */
export class Turns {
  readonly #prefillTokensMax: number;
  readonly #slots: readonly Seat[];
  readonly #embeddings: ReadonlySet<Embedding>;
  readonly #stepAge = new Age();
  readonly #pieceAge = new Age();
  #pieces = 0;
  #steps = 0;
  #stepIsDue = false;

  constructor(
    slots: readonly Seat[],
    embeddings: ReadonlySet<Embedding>,
    prefillTokensMax: number,
  ) {
    this.#slots = slots;
    this.#embeddings = embeddings;
    this.#prefillTokensMax = prefillTokensMax;
  }

  /** Of the best work that could be done now; undefined: there is none. */
  get priority(): Priority | undefined {
    let found: Priority | undefined;
    for (const { owner: generation } of this.#slots) {
      if (!generation || !canRun(generation)) continue;
      if (generation.priority === "interactive") return "interactive";
      found = "background";
    }
    for (const { priority, over } of this.#embeddings) {
      if (over) continue;
      if (priority === "interactive") return "interactive";
      found = "background";
    }
    return found;
  }

  /** Decides, and counts who was left out: to be called once for each turn that is really taken. */
  next(): Turn | undefined {
    const interactive = this.#work("interactive");
    const background = this.#work("background");
    const isFirst = interactive.streams.length + interactive.pieces.length > 0;
    const agedPiece = isFirst && background.pieces.length > 0 && this.#pieceAge.due;
    const agedStep = isFirst && background.streams.length > 0 && this.#stepAge.due;

    const pieces = isFirst && !agedPiece ? interactive.pieces : background.pieces;
    let members = isFirst ? interactive.streams : background.streams;
    if (agedStep) members = [...members, longestLeftOut(background.streams)].toSorted(bySequence);

    const piece = this.#stepIsDue && members.length > 0 ? undefined : this.#pick(pieces);
    this.#stepIsDue = piece !== undefined;
    const leaveOutSteps = isFirst && background.streams.length > 0;
    this.#stepAge.count(leaveOutSteps && (piece !== undefined || !agedStep));
    const leaveOutPieces = isFirst && background.pieces.length > 0;
    this.#pieceAge.count(leaveOutPieces && (piece === undefined || !agedPiece));

    if (piece) return this.#pieceTurn(piece, agedPiece);
    if (members.length === 0) return undefined;
    this.#steps += 1;
    for (const member of members) member.steppedAt = this.#steps;
    return { kind: "step", members };
  }

  #work(priority: Priority): { streams: Generation[]; pieces: Piece[] } {
    const streams: Generation[] = [];
    const pieces: Piece[] = [];
    for (const { owner: generation } of this.#slots) {
      if (!generation || generation.priority !== priority || !canRun(generation)) continue;
      if (generation.unreadTokens > 0) pieces.push(generation);
      else streams.push(generation);
    }
    for (const embedding of this.#embeddings)
      if (!embedding.over && embedding.priority === priority) pieces.push(embedding);
    return { streams, pieces };
  }

  #pick(pieces: readonly Piece[]): Piece | undefined {
    if (pieces.length === 0) return undefined;
    this.#pieces += 1;
    const key = this.#pieces % OLDEST_EVERY === 0 ? arrival : remaining;
    return pieces.reduce((one, other) => (key(other) < key(one) ? other : one));
  }

  #pieceTurn(piece: Piece, aged: boolean): Turn {
    if (!("unreadTokens" in piece)) return { kind: "embed", embedding: piece, alone: aged };
    const most = this.#prefillTokensMax;
    const tokensMax = aged ? Math.min(AGED_PREFILL_TOKENS, most) : most;
    return { kind: "prefill", generation: piece, tokensMax };
  }
}

/** Turns in a row that left background work out. */
class Age {
  #leftOut = 0;

  get due(): boolean {
    return this.#leftOut >= BACKGROUND_EVERY - 1;
  }

  count(leftOut: boolean): void {
    this.#leftOut = leftOut ? this.#leftOut + 1 : 0;
  }
}

function canRun(generation: Generation): boolean {
  return !generation.over && !generation.outbox.full;
}

function remaining(piece: Piece): number {
  return "unreadTokens" in piece ? piece.unreadTokens : piece.remaining;
}

function arrival(piece: Piece): number {
  return piece.order;
}

/** There is at least one. */
function longestLeftOut(streams: readonly Generation[]): Generation {
  return streams.reduce((one, other) => (other.steppedAt < one.steppedAt ? other : one));
}

function bySequence(one: Generation, other: Generation): number {
  return (one.slot?.index ?? 0) - (other.slot?.index ?? 0);
}
