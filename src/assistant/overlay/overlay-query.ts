import type { Caller } from "../caller.ts";
import type { AskRequest } from "./port.ts";
import type { QueryProgress } from "./query-end.ts";
import type { UserQuestion } from "./question.ts";

/**
 * One query, from the bus method Ask to the signal Finished. A query has four states:
 *
 * - waiting: The query has an id and waits for a slot. The next state is running or ended.
 * - running: The query's turn runs. The next state is asked or ended.
 * - asked: The query waits for the user's answer to `question`. The next state is running or ended.
 * - ended: Finished was sent, the last signal about the query.
 */
export class OverlayQuery {
  readonly id: number;
  readonly request: AskRequest;
  readonly caller: Caller;
  readonly #controller = new AbortController();
  hasBegun = false;
  /** True after the signal Started was sent. */
  hasStarted = false;
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
