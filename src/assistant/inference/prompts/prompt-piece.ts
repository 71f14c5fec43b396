/**
 * A part of a rendered prompt. The parts only mark where control tokens are allowed: the text of
 * neighbouring parts is tokenised as one text.
 */
export interface PromptPiece {
  readonly text: string;
  /**
   * True if the tokenizer turns the name of a control token in `text` into that token; false for such names from a
   * client.
   */
  readonly allowsControlTokens: boolean;
}
