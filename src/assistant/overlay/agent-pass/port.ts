import type { ConfirmationSpec } from "../../agent/port.ts";
import type { Caller } from "../../caller.ts";
import type { TurnCall } from "../port.ts";

/**
 * The part of a turn in which the local model may call tools before it answers. Every call goes the way of any
 * call of `Agent1`: tier, provenance, ledger, confirmation.
 */
export interface AgentPass {
  /**
   * Resolves when the model wants no further tool, or may not have one. Rejects with `DeniedError` where the person
   * said no, or did not answer; with AssistantErrors; with the signal's reason. Where no local model is there
   * to choose, it resolves with `isAvailable` false and nothing else.
   */
  run(turn: PassTurn, signal: AbortSignal): Promise<PassOutcome>;
}

export interface PassTurn {
  readonly prompt: string;
  /** What was found in the person's things, as the answer will have it; "" for nothing. */
  readonly context: string;
  /** The chain so far: `user`, and the labels of what is in `context`. */
  readonly provenance: readonly string[];
  /** Who asked the question. */
  readonly caller: Caller;
  /** Of the model that chooses: always a local one; undefined: the default. */
  readonly model: string | undefined;
  /**
   * Shows a parked call to a person and waits. Resolves to who said yes; rejects with DeniedError. The pass
   * confirms the call with this caller. A call that was resolved elsewhere meanwhile needs no answer: `signal`
   * aborts then, and the question is taken back.
   */
  readonly ask: (spec: ConfirmationSpec, signal: AbortSignal) => Promise<Caller>;
  /** Told of each call as it ends: of those of a pass that rejects nothing else tells. */
  readonly onCall?: ((call: TurnCall) => void) | undefined;
}

export interface PassOutcome {
  readonly isAvailable: boolean;
  readonly calls: readonly TurnCall[];
  /** What the tools gave, for the answer: one text for each call, in their order. */
  readonly results: readonly PassResult[];
}

export interface PassResult {
  readonly call: TurnCall;
  /** Its result, or why it failed, cut to 16 KiB. */
  readonly text: string;
}
