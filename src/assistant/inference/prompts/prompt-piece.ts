/**
 * A stretch of a rendered prompt. Stretches say where control tokens may stand, and nothing else: text
 * goes on from one to the next, and is to be tokenised as one between control tokens.
 */
export interface PromptPiece {
  readonly text: string;
  /** Whether the names of control tokens stand for those tokens in it; never in what a client wrote. */
  readonly allowsControlTokens: boolean;
}
