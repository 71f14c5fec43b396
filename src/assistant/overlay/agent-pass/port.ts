import type { ConfirmationSpec } from "../../agent/port.ts";
import type { Caller } from "../../caller.ts";
import type { TurnCall } from "../port.ts";

/**
 * The part of a turn in which the local model may call tools before it answers. Each of these calls is an ordinary call
 * of `Agent1`: its tier decides about confirmation, it has a provenance chain, and the ledger records it.
 */
export interface AgentPass {
  /**
   * Resolves when the model needs no further tool or reaches a limit. A call that the user declines has a result, which
   * the model sees, and the pass goes on. Rejects with `DeniedError` if the user did not answer in time, with
   * AssistantErrors, or with the signal's reason. If no local model is available, resolves with `isAvailable` false.
   */
  run(turn: PassTurn, signal: AbortSignal): Promise<PassOutcome>;
}

export interface PassTurn {
  readonly prompt: string;
  /** The passages from the user's data, as the answer's prompt will contain them; "" if there are none. */
  readonly context: string;
  /** The initial provenance chain: `user`, and the labels of the passages in `context`. */
  readonly provenance: readonly string[];
  /** The caller that sent the query of this turn. */
  readonly caller: Caller;
  /** The local model that chooses tools; undefined means the default model. */
  readonly model: string | undefined;
  /**
   * Shows a parked call to the user and waits for the answer. Resolves to the caller that approved the call, in whose
   * name the call is then confirmed. Rejects with DeniedError if the user did not approve. `signal` aborts if the call
   * was resolved elsewhere in the meantime; the question is then withdrawn.
   */
  readonly ask: (spec: ConfirmationSpec, signal: AbortSignal) => Promise<Caller>;
  /**
   * Called when a tool call ends. If `run` rejects, this callback is the only report of the calls that ended before.
   */
  readonly onCall?: ((call: TurnCall) => void) | undefined;
  /**
   * Called when a tool call has ended. Resolves when the pass may continue. After a question that the user declined,
   * the turn has released its slot and may have to wait for it while other queries run; the declined call has ended by
   * then and is no longer parked.
   */
  readonly resume?: (() => Promise<void>) | undefined;
}

export interface PassOutcome {
  readonly isAvailable: boolean;
  readonly calls: readonly TurnCall[];
  /** One result for each call, in the order of the calls, for the prompt of the answer. */
  readonly results: readonly PassResult[];
}

export interface PassResult {
  readonly call: TurnCall;
  /** The result of the call, or the reason why it failed, cut to 16 KiB. */
  readonly text: string;
}
