import type { TokenLogprob } from "../runner.ts";
import { StopTexts } from "./stop-texts.ts";

export interface EmittedText {
  readonly text: string;
  /** The logprobs of all tokens whose text is now emitted; undefined if there are none. */
  readonly logprobs: readonly TokenLogprob[] | undefined;
  /** True if a stop text was found, which ends the answer. */
  readonly stopped: boolean;
}

/** Emits an answer's text up to the first stop text, and each token's logprob together with its text. */
export class AnswerTextBuffer {
  readonly #stops: StopTexts;
  /** The tokens whose text, or the end of whose text, is held back. */
  #heldTokens: HeldToken[] = [];
  #receivedLength = 0;
  #emittedLength = 0;

  constructor(stops: readonly string[]) {
    this.#stops = new StopTexts(stops);
  }

  push(text: string, logprob: TokenLogprob | undefined): EmittedText {
    const from = this.#receivedLength;
    this.#receivedLength += text.length;
    if (logprob) this.#heldTokens.push({ from, to: this.#receivedLength, logprob });
    const { text: emitted, stopped } = this.#stops.push(text);
    return this.#emit(emitted, stopped);
  }

  /**
   * Emits the text that was held back as a possible stop text. Called when the model or the token limit ends the
   * answer.
   */
  flush(): EmittedText {
    return this.#emit(this.#stops.flush(), false);
  }

  #emit(text: string, stopped: boolean): EmittedText {
    this.#emittedLength += text.length;
    if (this.#heldTokens.length === 0) return { text, logprobs: undefined, stopped };
    // If a stop text begins inside the text of a token, the part of the token before the stop text is emitted, together
    // with the logprob of the token.
    const isEmitted = (token: HeldToken) =>
      token.to <= this.#emittedLength || (stopped && token.from < this.#emittedLength);
    const logprobs = this.#heldTokens.filter(isEmitted).map((token) => token.logprob);
    this.#heldTokens = this.#heldTokens.filter((token) => !isEmitted(token));
    return { text, logprobs: logprobs.length > 0 ? logprobs : undefined, stopped };
  }
}

interface HeldToken {
  /** The offset in the answer at which the token's text begins. `to` is the offset at which it ends. */
  readonly from: number;
  readonly to: number;
  readonly logprob: TokenLogprob;
}
