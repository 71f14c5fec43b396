import type { Caller } from "../caller.ts";
import { DeniedError } from "./denied-error.ts";

/** What one query asks a person. Answered once; whatever comes after the first answer changes nothing. */
export class UserQuestion {
  /** Of the query's questions, from 1 on: by the time that an answer comes, another one may be open. */
  readonly number: number;
  /** Who said yes; rejects with DeniedError. */
  readonly answer: Promise<Caller>;
  #resolve: (by: Caller) => void = () => {};
  #reject: (reason: unknown) => void = () => {};
  #isOpen = true;

  constructor(number: number) {
    this.number = number;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Whoever asked hears of it; nobody else has to.
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
    this.#end(new DeniedError("declined", "the answer was no"));
  }

  expire(): void {
    this.#end(new DeniedError("expired", "nobody answered in time"));
  }

  /** It needs no answer any more. */
  close(): void {
    this.#isOpen = false;
  }

  #end(reason: DeniedError): void {
    this.#isOpen = false;
    this.#reject(reason);
  }
}
