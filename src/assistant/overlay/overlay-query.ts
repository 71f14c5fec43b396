import type { Caller } from "../caller.ts";
import type { AskRequest } from "./port.ts";
import type { QueryProgress } from "./query-end.ts";
import type { UserQuestion } from "./question.ts";

/**
 * One query, from Ask to Finished:
 *
 *   waiting   has an id, waits for a slot       -> running; ended
 *   running   its turn runs                     -> asked; ended
 *   asked     waits for the user, `question`    -> running; ended
 *   ended     Finished was sent, always last
 */
export class OverlayQuery {
  readonly id: number;
  readonly request: AskRequest;
  readonly caller: Caller;
  readonly #controller = new AbortController();
  hasBegun = false;
  isEnded = false;
  question: UserQuestion | undefined;
  /** Number of questions of this query so far, including an open question. */
  questionCount = 0;
  progress: QueryProgress = { usage: null, finishReason: null, model: null, calls: [], note: "" };

  constructor(id: number, request: AskRequest, caller: Caller) {
    this.id = id;
    this.request = request;
    this.caller = caller;
  }

  get connection(): string {
    return this.caller.connection;
  }

  /** Aborts when the query has ended. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isWaitingForAnswer(): boolean {
    return this.question?.isOpen ?? false;
  }

  end(reason: Error): void {
    this.isEnded = true;
    this.#controller.abort(reason);
  }
}
