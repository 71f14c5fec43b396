import type { Caller } from "../caller.ts";
import { DeniedError } from "./denied-error.ts";

/** A question that a query asks the user. Only the first answer counts. */
export class UserQuestion {
  /**
   * The number is 1 for the first question of a query, 2 for the second one, and so on. An answer contains it, because
   * the query may have asked another question before the answer arrives.
   */
  readonly number: number;
  /**
   * Resolves to the caller that approved the request. Rejects with DeniedError if the user declined or did not answer
   * in time.
   */
  readonly answer: Promise<Caller>;
  #resolve: (by: Caller) => void = () => {};
  #reject: (reason: unknown) => void = () => {};
  #isOpen = true;
  /**
   * True while the user must still read the question: the companion accepts no approval before the end of that time.
   */
  isHeld: boolean;

  constructor(number: number, options: { readonly isHeld?: boolean } = {}) {
    this.number = number;
    this.isHeld = options.isHeld ?? false;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The code that asked the question handles the rejection. This handler prevents an unhandled rejection if that code
    // no longer waits for the answer.
    this.answer.catch(() => {});
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  allow(by: Caller): void {
    this.#isOpen = false;
    this.#resolve(by);
  }

  decline(): void {
    this.#end(new DeniedError("declined", "the user declined"));
  }

  expire(): void {
    this.#end(new DeniedError("expired", "there was no answer in time"));
  }

  /** Closes the question without an answer. */
  close(): void {
    this.#isOpen = false;
  }

  #end(reason: DeniedError): void {
    this.#isOpen = false;
    this.#reject(reason);
  }
}
