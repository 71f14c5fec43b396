import { Listeners } from "../../base/listeners.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import { TaskGroup } from "../../base/task-group.ts";
import { AssistantError } from "../assistant-error.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import { checkAskRequest } from "./check-ask-request.ts";
import { DeniedError } from "./denied-error.ts";
import { EndedQueries } from "./ended-queries.ts";
import { FrontendWindow } from "./frontend-window.ts";
import {
  defaultOverlayLimits,
  type OverlayDependencies,
  type OverlayLimits,
} from "./overlay-dependencies.ts";
import { OverlayQuery } from "./overlay-query.ts";
import { readOverlayStatus } from "./overlay-status.ts";
import type {
  AskRequest,
  ConfirmationRequest,
  OverlayListener,
  OverlayService,
  OverlaySpec,
  OverlayStatus,
} from "./port.ts";
import { checkQueryCapacity } from "./query-capacity.ts";
import {
  cancelledEnd,
  completedEnd,
  failedEnd,
  isExpectedError,
  type QueryEnd,
} from "./query-end.ts";
import { type QuerySlot, QuerySlots } from "./query-slots.ts";
import { QueryTurn } from "./query-turn.ts";
import { UserQuestion } from "./question.ts";
import { buildTurnMeta, noSearch } from "./turn-meta.ts";
import { resolveTurnRoute } from "./turn-route.ts";

/**
 * Runs queries. The first event of a query is sent in a later turn of the event loop than the call of `ask`, unless the
 * query is cancelled before. Started is sent once, before every other event, and Finished once, as the last event.
 */
export class Overlay implements OverlayService, AsyncDisposable {
  readonly #dependencies: OverlayDependencies;
  readonly #limits: OverlayLimits;
  readonly #startedAtMs: number;
  readonly #listeners: Listeners<OverlayListener>;
  readonly #slots: QuerySlots;
  readonly #window: FrontendWindow;
  readonly #tasks: TaskGroup;
  /** Queries that have not ended, in the order of their ids. */
  readonly #queries = new Map<number, OverlayQuery>();
  readonly #ended = new EndedQueries();
  #lastId = 0;
  #isEnding = false;

  constructor(options: OverlayDependencies) {
    const { clock, logger, ui, limits = defaultOverlayLimits } = options;
    this.#dependencies = options;
    this.#limits = limits;
    this.#startedAtMs = clock.now();
    this.#listeners = new Listeners(logger);
    this.#slots = new QuerySlots({
      slots: limits.running,
      sandboxed: limits.running - limits.reservedForPerson.slots,
    });
    this.#tasks = new TaskGroup((err, name) =>
      logger.error({ err, name }, "a background task of a query failed"),
    );
    this.#window = new FrontendWindow({ ui, tasks: this.#tasks, logger });
  }

  ask(request: AskRequest, caller: Caller): number {
    checkAskRequest(request);
    if (this.#isEnding) throw new AssistantError("shutting_down", "the companion is shutting down");
    const callers = [...this.#queries.values()].map((query) => query.caller);
    checkQueryCapacity(callers, caller, this.#limits);
    this.#lastId += 1;
    const query = new OverlayQuery(this.#lastId, request, caller);
    this.#queries.set(query.id, query);
    setImmediate(() => this.#tasks.run("a query", () => this.#run(query)));
    return query.id;
  }

  cancel(queryId: number, caller: Caller): void {
    const query = this.#queries.get(queryId);
    const owner = query?.connection ?? this.#ended.findOwner(queryId);
    if (owner !== caller.connection) throw noSuchQueryError(queryId);
    if (query?.isWaitingForAnswer === true) query.question?.decline();
    else if (query) this.#cancel(query, "the query was cancelled");
  }

  respond(queryId: number, isApproved: boolean, caller: Caller, number?: number): void {
    if (sandboxedApp(caller) !== undefined)
      throw new AssistantError(
        "forbidden",
        "a sandboxed app may not answer for the user: use a frontend outside of the sandbox",
      );
    const question = this.#queries.get(queryId)?.question;
    if (question?.isOpen === true && (number ?? question.number) === question.number) {
      if (isApproved && question.isHeld)
        throw new AssistantError(
          "busy",
          `question ${question.number} of query ${queryId} can be approved only after its hold_ms, so that the user can read it first; answer again afterwards`,
          { retryAfterSeconds: 1 },
        );
      if (isApproved) question.allow(caller);
      else question.decline();
      return;
    }
    const isKnown = this.#queries.has(queryId) || this.#ended.findOwner(queryId) !== undefined;
    if (!isKnown) throw noSuchQueryError(queryId);
    throw number === undefined
      ? notWaitingError(`query ${queryId} does not wait for an answer`, "query_id")
      : notWaitingError(
          `question ${number} of query ${queryId} does not wait for an answer`,
          "question",
        );
  }

  status(): Promise<OverlayStatus> {
    const queries = [...this.#queries.values()];
    return readOverlayStatus(this.#dependencies, {
      active: queries.filter(({ hasBegun }) => hasBegun).length,
      asked: queries.filter(({ isWaitingForAnswer }) => isWaitingForAnswer).length,
      startedAtMs: this.#startedAtMs,
      signal: this.#tasks.signal,
    });
  }

  async summon(prompt: string): Promise<void> {
    this.#window.relinquish();
    await this.#dependencies.ui.summon(prompt, {}, this.#tasks.signal);
  }

  async hide(): Promise<void> {
    this.#window.relinquish();
    await this.#dependencies.ui.hide(this.#tasks.signal);
  }

  handleDisconnect(connection: string): void {
    for (const query of this.#queries.values())
      if (query.connection === connection)
        this.#cancel(query, "the connection that asked the query has closed");
    this.#ended.forget(connection);
  }

  subscribe(listener: OverlayListener): () => void {
    return this.#listeners.add(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    for (const query of this.#queries.values())
      this.#end(
        query,
        cancelledEnd("shutting_down", "the companion is shutting down", query.progress),
      );
    await this.#tasks[Symbol.asyncDispose]();
  }

  async #run(query: OverlayQuery): Promise<void> {
    try {
      using slot = await this.#slots.acquire(query.caller, query.signal);
      query.hasBegun = true;
      await this.#createTurn(query, slot).run();
      this.#end(query, completedEnd(query.progress));
    } catch (error) {
      // Errors after the end of a query are ignored.
      if (query.isEnded) return;
      if (!isExpectedError(error) && !(error instanceof DeniedError))
        this.#dependencies.logger.error({ err: error, query: query.id }, "a query failed");
      this.#end(query, failedEnd(error, query.progress));
    }
  }

  #createTurn(query: OverlayQuery, slot: QuerySlot): QueryTurn {
    const { id, connection } = query;
    const send = (deliver: (listener: OverlayListener) => void) => {
      if (!query.isEnded) this.#listeners.notify(deliver);
    };
    return new QueryTurn(this.#dependencies, query, {
      started: (meta) => {
        query.hasStarted = true;
        send((listener) => listener.started(id, meta, connection));
      },
      token: (text) => send((listener) => listener.token(id, text, connection)),
      ask: (request, signal) => this.#askPerson(query, slot, request, signal),
      resume: () => slot.resume(),
    });
  }

  /**
   * Asks the user to allow a call or a transfer of data. Meanwhile another query can use the slot of this query. After
   * an approval the query has its slot again; after a denial, a turn that continues must call `resume` first.
   */
  async #askPerson(
    query: OverlayQuery,
    slot: QuerySlot,
    request: ConfirmationRequest,
    withdrawn: AbortSignal,
  ): Promise<Caller> {
    slot.suspend();
    try {
      const by = await this.#waitForAnswer(query, request, withdrawn);
      await slot.resume();
      return by;
    } catch (error) {
      // If another frontend has answered the question, the query goes on and needs its slot again.
      if (withdrawn.aborted && !query.isEnded) await slot.resume();
      throw error;
    }
  }

  async #waitForAnswer(
    query: OverlayQuery,
    request: ConfirmationRequest,
    withdrawn: AbortSignal,
  ): Promise<Caller> {
    query.signal.throwIfAborted();
    withdrawn.throwIfAborted();
    if (query.question) throw new Error("a query can ask only one question at a time");
    query.questionCount += 1;
    const holdMs = request.kind === "call" ? request.hold_ms : 0;
    const question = new UserQuestion(query.questionCount, { isHeld: holdMs > 0 });
    query.question = question;
    const { clock } = this.#dependencies;
    const stopTimer = clock.setTimer(this.#limits.answerTimeoutMs, () => question.expire());
    const stopHold = clock.setTimer(holdMs, () => {
      question.isHeld = false;
    });
    try {
      this.#showQuestion(query, question, { ...request, question: question.number });
      return await raceWithAbort(question.answer, query.signal, withdrawn);
    } finally {
      stopTimer();
      stopHold();
      question.close();
      query.question = undefined;
      this.#window.releaseVisible(query.id);
    }
  }

  /**
   * Sends the question to the connection that sent the query, and to the frontend if that is another connection. Then
   * shows the frontend's window.
   */
  #showQuestion(query: OverlayQuery, question: UserQuestion, spec: OverlaySpec): void {
    const send = (to: string) =>
      this.#listeners.notify((listener) => listener.confirmationNeeded(query.id, spec, to));
    send(query.connection);
    this.#tasks.run("the frontend", async (signal) => {
      const frontend = await this.#dependencies.ui.connection(signal);
      const isOther = frontend !== undefined && frontend !== query.connection;
      if (isOther && question.isOpen && !query.isEnded) send(frontend);
    });
    this.#window.requireVisible(query.id);
  }

  #cancel(query: OverlayQuery, why: string): void {
    this.#end(query, cancelledEnd("cancelled", why, query.progress));
  }

  #end(query: OverlayQuery, { status, detail }: QueryEnd): void {
    if (query.isEnded) return;
    query.end(new AssistantError("cancelled", "the query has ended"));
    this.#queries.delete(query.id);
    this.#ended.add(query.id, query.connection);
    if (!query.hasStarted) this.#sendEmptyStarted(query);
    this.#listeners.notify((listener) =>
      listener.finished(query.id, status, detail, query.connection),
    );
  }

  /**
   * Sends Started for a query that ends before its turn has sent it, because each query sends Started before Finished.
   */
  #sendEmptyStarted({ id, request, connection }: OverlayQuery): void {
    const route = resolveTurnRoute(this.#dependencies.routes, request.modelHint).kind;
    const meta = buildTurnMeta(request, route, noSearch, undefined);
    this.#listeners.notify((listener) => listener.started(id, meta, connection));
  }
}

function notWaitingError(message: string, param: string): AssistantError {
  return new AssistantError("invalid_request", message, { param });
}

function noSuchQueryError(queryId: number): AssistantError {
  return new AssistantError("not_found", `this connection has no query ${queryId}`);
}
