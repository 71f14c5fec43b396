import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent, GenerateRequest, InferenceService } from "../service-port.ts";
import {
  type CancelReason,
  cancelledSignal,
  completedSignal,
  type FinishedSignal,
  failedSignal,
} from "./finished-signal.ts";
import { type PipeMessage, ReaderGoneError, type SessionPipe } from "./session-pipe.ts";

export interface InferenceSessionOptions {
  readonly pipe: SessionPipe;
  readonly service: InferenceService;
  readonly clock: Clock;
  /**
   * Runs a task that outlasts the method call that started it. The task must not reject. The daemon waits for running
   * tasks when it shuts down.
   */
  readonly background: (task: () => Promise<void>) => void;
  /** Called when a message has ended and EOF was sent. */
  readonly onFinished: (finished: FinishedSignal) => void;
  /** Called with an unexpected error that ended an answer. */
  readonly onUnexpectedError: (error: unknown) => void;
}

/** The interval at which the daemon checks that the pipe still has a reader, until the model has produced text. */
const READER_CHECK_MS = 1_000;

/**
 * A message in progress, from the call of Generate on. `message` is undefined until the inference service has accepted
 * the request.
 */
interface MessageRun {
  readonly controller: AbortController;
  message: PipeMessage | undefined;
}

/**
 * One session and its pipe, with these states:
 *
 * - open: Generate -> generating; Close -> closed
 * - generating: the message ends, Cancel is called or the reader closes its end -> open; Close -> closed
 * - closed: the pipe is closed, and the session cannot be used any more
 *
 * The session pulls the model's next event only after the pipe has accepted the last one, so a slow reader delays only
 * its own message.
 */
export class InferenceSession {
  readonly #options: InferenceSessionOptions;
  readonly #closing = new AbortController();
  #run: MessageRun | undefined;

  constructor(options: InferenceSessionOptions) {
    this.#options = options;
  }

  /** Aborted when the session is closed. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  get state(): "open" | "generating" | "closed" {
    if (this.signal.aborted) return "closed";
    return this.#run ? "generating" : "open";
  }

  /**
   * Resolves when the request is in the ledger and in the queue. The message is then written to the pipe. Rejects with
   * the errors of the service, with `busy` while the session is generating, with `cancelled` if the message is
   * cancelled before it begins, and with `not_found` if the pipe has no reader.
   */
  async generate(request: GenerateRequest): Promise<void> {
    if (this.signal.aborted) throw sessionClosedError();
    if (this.#run)
      throw new AssistantError(
        "busy",
        "this session is generating; read its pipe to the end, or call Cancel, before the next Generate",
      );
    if (!this.#options.pipe.hasReader()) throw readerGoneError();
    const run: MessageRun = { controller: new AbortController(), message: undefined };
    this.#run = run;
    const { signal } = run.controller;
    const events = this.#options.service.generate(request, signal)[Symbol.asyncIterator]();
    try {
      const first = await raceWithAbort(events.next(), signal);
      signal.throwIfAborted();
      if (first.done === true || first.value.type !== "accepted")
        throw new Error("the answer did not begin with the event `accepted`");
      run.message = this.#options.pipe.begin();
    } catch (error) {
      const refusal = signal.aborted ? toError(signal.reason) : error;
      if (this.#run === run) this.#run = undefined;
      this.#options.background(() => releaseAnswer(run, events));
      throw refusal instanceof ReaderGoneError ? readerGoneError() : refusal;
    }
    const { message } = run;
    this.#options.background(async () => {
      // The message starts after the reply to Generate was sent, even if the whole message is available already.
      await nextTurn();
      await this.#stream(run, message, events);
    });
  }

  /**
   * Ends the current message and sends EOF immediately, even if the message has not begun and its reader waits. Does
   * nothing if there is no message.
   */
  cancel(): void {
    this.#endMessage(cancelled("Cancel was called"));
  }

  /** Closes the session. May be called more than once. */
  close(reason: CancelReason): void {
    if (this.signal.aborted) return;
    this.#endMessage(reason);
    this.#closing.abort(sessionClosedError());
    this.#options.pipe.close();
  }

  async #stream(
    run: MessageRun,
    message: PipeMessage,
    events: AsyncIterator<AnswerEvent>,
  ): Promise<void> {
    const stopWatching = this.#watchReader(run);
    try {
      const finished = await this.#copyToPipe(run, message, events);
      this.#finishMessage(run, finished);
    } catch (error) {
      if (error instanceof ReaderGoneError)
        this.#finishMessage(run, cancelledSignal(cancelled(READER_GONE)));
      else {
        // A method that aborts the answer also calls `#finishMessage` and thereby resets `#run`. The error of such an
        // abort is not reported.
        if (this.#run === run && !(error instanceof AssistantError))
          this.#options.onUnexpectedError(error);
        this.#finishMessage(run, failedSignal(error));
      }
    } finally {
      stopWatching();
      await releaseAnswer(run, events);
    }
  }

  async #copyToPipe(
    run: MessageRun,
    message: PipeMessage,
    events: AsyncIterator<AnswerEvent>,
  ): Promise<FinishedSignal> {
    const { signal } = run.controller;
    let promptTokens = 0;
    let finished: FinishedSignal | undefined;
    for (;;) {
      const next = await raceWithAbort(events.next(), signal);
      if (next.done === true) break;
      const event = next.value;
      if (event.type === "started") promptTokens = event.promptTokens;
      if (event.type === "text") await message.write(event.text);
      if (event.type === "end") finished = completedSignal(event, promptTokens);
    }
    if (!finished) throw new Error("the answer had no end event");
    return finished;
  }

  #endMessage(reason: CancelReason): void {
    const run = this.#run;
    if (!run) return;
    const { code, message } = reason;
    run.controller.abort(new AssistantError(code, `the generation was ended: ${message}`));
    // While `run.message` is undefined, the call of Generate is unanswered. Its caller then receives the error of the
    // abort as the reply, and no signal Finished.
    if (run.message) this.#finishMessage(run, cancelledSignal(reason));
    else {
      this.#run = undefined;
      this.#options.pipe.endMessage();
    }
  }

  /** Finishes a message once: sends EOF, makes the session available again, then emits the signal Finished. */
  #finishMessage(run: MessageRun, finished: FinishedSignal): void {
    if (this.#run !== run) return;
    this.#options.pipe.endMessage();
    this.#run = undefined;
    this.#options.onFinished(finished);
  }

  #watchReader(run: MessageRun): () => void {
    const { clock, pipe } = this.#options;
    let cancelTimer: (() => void) | undefined;
    const checkReader = () => {
      if (this.#run !== run) return;
      if (pipe.hasReader()) cancelTimer = clock.setTimer(READER_CHECK_MS, checkReader);
      else this.#endMessage(cancelled(READER_GONE));
    };
    cancelTimer = clock.setTimer(READER_CHECK_MS, checkReader);
    return () => cancelTimer?.();
  }
}

/**
 * Ends the answer, so that the service releases its resources. An error is ignored: it was reported before, or is the
 * expected result of an abort.
 */
async function releaseAnswer(run: MessageRun, events: AsyncIterator<AnswerEvent>): Promise<void> {
  run.controller.abort();
  await events.return?.().catch(() => {});
}

const READER_GONE = "the session's pipe has no reader any more";

function cancelled(message: string): CancelReason {
  return { code: "cancelled", message };
}

function readerGoneError(): AssistantError {
  return new AssistantError("not_found", `${READER_GONE}; open another session`);
}

function sessionClosedError(): AssistantError {
  return new AssistantError("not_found", "this session is closed; open another one");
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("the generation was ended");
}
