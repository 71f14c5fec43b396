import type { TokenLogprob } from "../runner.ts";
import { StopTexts } from "./stop-texts.ts";

export interface EmittedText {
  readonly text: string;
  /** Of the tokens whose text is told with it, or was before; undefined: there are none. */
  readonly logprobs: readonly TokenLogprob[] | undefined;
  /** A stop text was met; nothing comes after. */
  readonly stopped: boolean;
}

/** What is told of an answer: its text up to the first stop text, and each token's logprob with its text. */
export class AnswerTextBuffer {
  readonly #stops: StopTexts;
  /** Tokens whose text is held back, at least its end. */
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
    const { text: told, stopped } = this.#stops.push(text);
    return this.#emit(told, stopped);
  }

  /** The model has ended, or the limit was met: whatever was held back is told. */
  flush(): EmittedText {
    return this.#emit(this.#stops.flush(), false);
  }

  #emit(text: string, stopped: boolean): EmittedText {
    this.#emittedLength += text.length;
    if (this.#heldTokens.length === 0) return { text, logprobs: undefined, stopped };
    // Of a token that the stop text cuts in two, the first half is told.
    const isTold = (token: HeldToken) =>
      token.to <= this.#emittedLength || (stopped && token.from < this.#emittedLength);
    const logprobs = this.#heldTokens.filter(isTold).map((token) => token.logprob);
    this.#heldTokens = this.#heldTokens.filter((token) => !isTold(token));
    return { text, logprobs: logprobs.length > 0 ? logprobs : undefined, stopped };
  }
}

interface HeldToken {
  /** Where its text begins and ends in the answer. */
  readonly from: number;
  readonly to: number;
  readonly logprob: TokenLogprob;
}
