import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent, GenerateRequest, InferenceService } from "../service-port.ts";
import {
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
  /** Work that goes on behind an answered call and never rejects; the daemon's end waits for it. */
  readonly background: (task: () => Promise<void>) => void;
  /** A message has met its EOF. */
  readonly onFinished: (finished: FinishedSignal) => void;
  /** Something that nobody expected ended a message. */
  readonly onUnexpectedError: (error: unknown) => void;
}

/** A reader that goes away while the model is still thinking is noticed this soon. */
const READER_CHECK_MS = 1_000;

/** A message under way, from the call of Generate on. */
interface MessageRun {
  readonly controller: AbortController;
  message: PipeMessage | undefined;
}

/**
 * One session and its pipe:
 *
 *   open        Generate -> generating; Close -> closed
 *   generating  the message is done, Cancel, or the reader has gone -> open; Close -> closed
 *   closed      the pipe is closed; nothing more comes
 *
 * The model is asked for the next event when the pipe has taken the one before: a slow reader slows its own
 * message down and no other.
 */
export class InferenceSession {
  readonly #options: InferenceSessionOptions;
  readonly #closing = new AbortController();
  #run: MessageRun | undefined;

  constructor(options: InferenceSessionOptions) {
    this.#options = options;
  }

  /** Aborts when the session is closed. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  get state(): "open" | "generating" | "closed" {
    if (this.signal.aborted) return "closed";
    return this.#run ? "generating" : "open";
  }

  /**
   * Resolves when the request is in the ledger and has its place; the message follows over the pipe. Rejects
   * with what the service refuses, and with `busy`, `cancelled`, or `not_found` where nobody reads.
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
        throw new Error("the answer did not begin with its acceptance");
      run.message = this.#options.pipe.begin();
    } catch (error) {
      const refusal = signal.aborted ? toError(signal.reason) : error;
      if (this.#run === run) this.#run = undefined;
      this.#options.background(() => releaseAnswer(run, events));
      throw refusal instanceof ReaderGoneError ? readerGoneError() : refusal;
    }
    const { message } = run;
    this.#options.background(async () => {
      // Generate is answered first, also where the whole message is there already.
      await nextTurn();
      await this.#stream(run, message, events);
    });
  }

  /** EOF at once, also for a reader that waits for a message that has not begun; nothing where there is none. */
  cancel(): void {
    this.#endMessage("Cancel was called");
  }

  /** Ends everything. Safe to call twice. */
  close(why: string): void {
    if (this.signal.aborted) return;
    this.#endMessage(why);
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
      if (error instanceof ReaderGoneError) this.#finishMessage(run, cancelledSignal(READER_GONE));
      else {
        // After an abort it has been finished by whoever aborted.
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
    if (!finished) throw new Error("the answer has no end");
    return finished;
  }

  #endMessage(why: string): void {
    const run = this.#run;
    if (!run) return;
    run.controller.abort(new AssistantError("cancelled", `the generation was ended: ${why}`));
    // Whoever called Generate hears of it by the reply where the message had not begun.
    if (run.message) this.#finishMessage(run, cancelledSignal(why));
    else {
      this.#run = undefined;
      this.#options.pipe.endMessage();
    }
  }

  /** Once for each message: EOF, then the session is open again, then the word of it. */
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
      else this.#endMessage(READER_GONE);
    };
    cancelTimer = clock.setTimer(READER_CHECK_MS, checkReader);
    return () => cancelTimer?.();
  }
}

/** Makes the service free what it holds. What goes wrong there has been told, or was ended on purpose. */
async function releaseAnswer(run: MessageRun, events: AsyncIterator<AnswerEvent>): Promise<void> {
  run.controller.abort();
  await events.return?.().catch(() => {});
}

const READER_GONE = "nobody reads the session's pipe any more";

function readerGoneError(): AssistantError {
  return new AssistantError("not_found", `${READER_GONE}; open another session`);
}

function sessionClosedError(): AssistantError {
  return new AssistantError("not_found", "this session is closed; open another one");
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("the generation was ended");
}
