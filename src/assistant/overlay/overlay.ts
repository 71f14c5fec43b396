import { untilAborted } from "../../base/aborting.ts";
import { TaskGroup } from "../../base/task-group.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { AssistantError } from "../errors.ts";
import { checkAskRequest } from "./ask-request.ts";
import { Attention } from "./attention.ts";
import { DeniedError } from "./denied.ts";
import { EndedQueries } from "./ended-queries.ts";
import { cancelled, completed, type Ending, failed, isExpected } from "./finished-detail.ts";
import { OverlayListeners } from "./listeners.ts";
import { type OverlayLimits, type OverlayOptions, overlayLimits } from "./options.ts";
import { type Place, Places } from "./places.ts";
import type {
  AskRequest,
  OverlayListener,
  OverlayService,
  OverlaySpec,
  OverlayStatus,
  Wish,
} from "./port.ts";
import { Query } from "./query.ts";
import { Question } from "./question.ts";
import { overlayStatus } from "./status.ts";
import { Turn } from "./turn.ts";

/**
 * Queries and their turns. A query is told of from a later turn of the event loop on than the one in which it was
 * asked; Finished is told where it ends, once, and nothing after it.
 */
export class Overlay implements OverlayService, AsyncDisposable {
  readonly #options: OverlayOptions;
  readonly #limits: OverlayLimits;
  readonly #startedAtMs: number;
  readonly #listeners: OverlayListeners;
  readonly #places: Places;
  readonly #attention: Attention;
  readonly #tasks: TaskGroup;
  /** That have not ended, in the order of their ids. */
  readonly #queries = new Map<number, Query>();
  readonly #ended = new EndedQueries();
  #lastId = 0;
  #isEnding = false;

  constructor(options: OverlayOptions) {
    const { clock, logger, ui, limits = overlayLimits } = options;
    this.#options = options;
    this.#limits = limits;
    this.#startedAtMs = clock.now();
    this.#listeners = new OverlayListeners(logger);
    this.#places = new Places(limits.running);
    this.#tasks = new TaskGroup((err, name) =>
      logger.error({ err, name }, "a task of queries failed"),
    );
    this.#attention = new Attention({ ui, tasks: this.#tasks, logger });
  }

  ask(request: AskRequest, caller: Caller): number {
    checkAskRequest(request);
    if (this.#isEnding) throw new AssistantError("shutting_down", "the companion is ending");
    this.#admit(caller.connection);
    this.#lastId += 1;
    const query = new Query(this.#lastId, request, caller);
    this.#queries.set(query.id, query);
    setImmediate(() => this.#tasks.run("a query", () => this.#run(query)));
    return query.id;
  }

  cancel(queryId: number, caller: Caller): void {
    const query = this.#queries.get(queryId);
    const owner = query?.connection ?? this.#ended.ownerOf(queryId);
    if (owner !== caller.connection) throw noSuchQuery(queryId);
    if (query?.isAsked === true) query.question?.decline();
    else if (query) this.#cancel(query, "Cancel was called");
  }

  respond(queryId: number, isApproved: boolean, caller: Caller, number?: number): void {
    if (sandboxedApp(caller) !== undefined)
      throw new AssistantError(
        "forbidden",
        "an app in a sandbox may not answer for the person: a frontend outside of it may",
      );
    const question = this.#queries.get(queryId)?.question;
    if (question?.isOpen === true && (number ?? question.number) === question.number) {
      if (isApproved) question.allow(caller);
      else question.decline();
      return;
    }
    const isKnown = this.#queries.has(queryId) || this.#ended.ownerOf(queryId) !== undefined;
    if (!isKnown) throw noSuchQuery(queryId);
    throw number === undefined
      ? late(`query ${queryId} does not wait for an answer`, "query_id")
      : late(`question ${number} of query ${queryId} does not wait for an answer`, "question");
  }

  status(): Promise<OverlayStatus> {
    const queries = [...this.#queries.values()];
    return overlayStatus(this.#options, {
      active: queries.filter(({ hasBegun }) => hasBegun).length,
      asked: queries.filter(({ isAsked }) => isAsked).length,
      startedAtMs: this.#startedAtMs,
      signal: this.#tasks.signal,
    });
  }

  async summon(prompt: string): Promise<void> {
    this.#attention.isTheirs();
    await this.#options.ui.summon(prompt, {}, this.#tasks.signal);
  }

  async hide(): Promise<void> {
    this.#attention.isTheirs();
    await this.#options.ui.hide(this.#tasks.signal);
  }

  callerGone(connection: string): void {
    for (const query of this.#queries.values())
      if (query.connection === connection) this.#cancel(query, "whoever asked has gone");
    this.#ended.forget(connection);
  }

  subscribe(listener: OverlayListener): () => void {
    return this.#listeners.add(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    for (const query of this.#queries.values())
      this.#end(query, cancelled("shutting_down", "the companion is ending", query.progress));
    await this.#tasks[Symbol.asyncDispose]();
  }

  /** Throws `limits_exceeded`. Who has nothing under way yet finds a place where the others have taken all. */
  #admit(connection: string): void {
    const { running, waiting, newcomers } = this.#limits;
    const places = running + waiting;
    if (this.#queries.size < places) return;
    const isNew = [...this.#queries.values()].every((query) => query.connection !== connection);
    if (isNew && this.#queries.size < places + newcomers) return;
    throw new AssistantError(
      "limits_exceeded",
      `${running} queries are running and ${waiting} wait: wait for one of them to end`,
    );
  }

  async #run(query: Query): Promise<void> {
    try {
      using place = await this.#places.take(query.connection, query.signal);
      query.hasBegun = true;
      await this.#turn(query, place).run();
      this.#end(query, completed(query.progress));
    } catch (error) {
      // What still comes of a query that has ended is nobody's any more.
      if (query.isEnded) return;
      if (!isExpected(error) && !(error instanceof DeniedError))
        this.#options.logger.error({ err: error, query: query.id }, "a query failed");
      this.#end(query, failed(error, query.progress));
    }
  }

  #turn(query: Query, place: Place): Turn {
    const { id, connection } = query;
    const tell = (word: (listener: OverlayListener) => void) => {
      if (!query.isEnded) this.#listeners.tell(word);
    };
    return new Turn(this.#options, query, {
      started: (meta) => tell((listener) => listener.started(id, meta, connection)),
      token: (text) => tell((listener) => listener.token(id, text, connection)),
      ask: (wish, signal) => this.#askPerson(query, place, wish, signal),
    });
  }

  /** While a person thinks, the query's place is somebody else's. */
  async #askPerson(
    query: Query,
    place: Place,
    wish: Wish,
    withdrawn: AbortSignal,
  ): Promise<Caller> {
    place.rest();
    try {
      const by = await this.#answerOf(query, wish, withdrawn);
      await place.resume();
      return by;
    } catch (error) {
      // The call was decided elsewhere, and the turn goes on.
      if (withdrawn.aborted && !query.isEnded) await place.resume();
      throw error;
    }
  }

  async #answerOf(query: Query, wish: Wish, withdrawn: AbortSignal): Promise<Caller> {
    query.signal.throwIfAborted();
    withdrawn.throwIfAborted();
    if (query.question) throw new Error("a query asks one thing at a time");
    query.questions += 1;
    const question = new Question(query.questions);
    query.question = question;
    const stopTimer = this.#options.clock.setTimer(this.#limits.answerMs, () => question.expire());
    try {
      this.#show(query, question, { ...wish, question: question.number });
      return await untilAborted(question.answer, query.signal, withdrawn);
    } finally {
      stopTimer();
      question.close();
      query.question = undefined;
      this.#attention.needless(query.id);
    }
  }

  /** To whoever asked, and to the frontend where that is another one, whose window comes up. */
  #show(query: Query, question: Question, spec: OverlaySpec): void {
    const tell = (to: string) =>
      this.#listeners.tell((listener) => listener.confirmationNeeded(query.id, spec, to));
    tell(query.connection);
    this.#tasks.run("the frontend", async (signal) => {
      const frontend = await this.#options.ui.connection(signal);
      const isOther = frontend !== undefined && frontend !== query.connection;
      if (isOther && question.isOpen && !query.isEnded) tell(frontend);
    });
    this.#attention.needed(query.id);
  }

  #cancel(query: Query, why: string): void {
    this.#end(query, cancelled("cancelled", why, query.progress));
  }

  #end(query: Query, { status, detail }: Ending): void {
    if (query.isEnded) return;
    query.end(new AssistantError("cancelled", "the query has ended"));
    this.#queries.delete(query.id);
    this.#ended.add(query.id, query.connection);
    this.#listeners.tell((listener) =>
      listener.finished(query.id, status, detail, query.connection),
    );
  }
}

function late(words: string, param: string): AssistantError {
  return new AssistantError("invalid_request", words, { param });
}

function noSuchQuery(queryId: number): AssistantError {
  return new AssistantError("not_found", `there is no query ${queryId} of this connection`);
}
