import type { TokenLogprob } from "../runner.ts";
import { StopTexts } from "./stop-texts.ts";

export interface Told {
  readonly text: string;
  /** Of the tokens whose text is told with it, or was before; undefined: there are none. */
  readonly logprobs: readonly TokenLogprob[] | undefined;
  /** A stop text was met; nothing comes after. */
  readonly stopped: boolean;
}

/** What is told of an answer: its text up to the first stop text, and each token's logprob with its text. */
export class AnswerText {
  readonly #stops: StopTexts;
  /** Tokens whose text is held back, at least its end. */
  #held: HeldToken[] = [];
  #received = 0;
  #told = 0;

  constructor(stops: readonly string[]) {
    this.#stops = new StopTexts(stops);
  }

  push(text: string, logprob: TokenLogprob | undefined): Told {
    const from = this.#received;
    this.#received += text.length;
    if (logprob) this.#held.push({ from, to: this.#received, logprob });
    const { text: told, stopped } = this.#stops.push(text);
    return this.#tell(told, stopped);
  }

  /** The model has ended, or the limit was met: whatever was held back is told. */
  flush(): Told {
    return this.#tell(this.#stops.flush(), false);
  }

  #tell(text: string, stopped: boolean): Told {
    this.#told += text.length;
    if (this.#held.length === 0) return { text, logprobs: undefined, stopped };
    // Of a token that the stop text cuts in two, the first half is told.
    const isTold = (token: HeldToken) =>
      token.to <= this.#told || (stopped && token.from < this.#told);
    const logprobs = this.#held.filter(isTold).map((token) => token.logprob);
    this.#held = this.#held.filter((token) => !isTold(token));
    return { text, logprobs: logprobs.length > 0 ? logprobs : undefined, stopped };
  }
}

interface HeldToken {
  /** Where its text begins and ends in the answer. */
  readonly from: number;
  readonly to: number;
  readonly logprob: TokenLogprob;
}
