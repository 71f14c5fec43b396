/**
 * A part of a rendered prompt. The parts only mark where control tokens are allowed: the text of
 * neighbouring parts is tokenised as one text.
 */
export interface PromptPiece {
  readonly text: string;
  /** True if the name of a control token becomes that token; false for a client's masked text. */
  readonly allowsControlTokens: boolean;
}
