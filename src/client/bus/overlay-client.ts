import { raceWithAbort } from "../../base/race-with-abort.ts";
import type { BusValue, BusVariant, SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { companionEnded } from "./connection-errors.ts";
import { unexpectedAnswer } from "./json-fields.ts";
import { type OverlayEvent, OverlayTurn } from "./overlay-turn.ts";
import { finishedStatuses } from "./overlay-wire.ts";

export interface OverlayRequest {
  readonly prompt: string;
  /**
   * A query in the lane `agent` is one turn with tools and context. A query in the lane `chat` belongs to a
   * conversation without tools and context.
   */
  readonly lane: "agent" | "chat";
  readonly myStuff: boolean;
  /** The scopes of the companion's index to search; undefined means all. */
  readonly scopes?: readonly string[] | undefined;
  /** The model to use; undefined means the companion's default. */
  readonly model: string | undefined;
  /** The earlier messages of a chat. */
  readonly history: readonly { readonly role: string; readonly content: string }[];
}

const ANSWER_MS_MAX = 30_000;

/**
 * A client of the interface Overlay1. Its methods reject with BerthErrors (see `toBerthError`) and return unvalidated
 * JSON, which `overlay-wire.ts` parses.
 */
export class OverlayClient {
  readonly #overlay: BusInterface;

  constructor(bus: SessionBus) {
    this.#overlay = new BusInterface(bus, "dev.assistant.Overlay1");
  }

  /** Subscribes to the events of the turn, then sends the query. The caller must dispose of the turn. */
  async start(request: OverlayRequest, signal: AbortSignal): Promise<OverlayTurn> {
    const turn = new OverlayTurn();
    try {
      for (const [member, read] of Object.entries(signalReaders)) {
        const stop = await this.#overlay.onSignal(member, ([queryId, ...args]) => {
          const event = read(args);
          if (typeof queryId === "bigint" && event !== undefined) turn.add(queryId, event);
        });
        turn.onDispose(stop);
      }
      turn.onDispose(await this.#overlay.onDisconnected(() => turn.fail(companionEnded())));
      const asked = this.#ask(request);
      try {
        turn.begin(await raceWithAbort(asked, signal));
      } catch (error) {
        // The caller aborted before the query's id was known, so the query is cancelled now.
        if (signal.aborted)
          asked.then((queryId) => this.cancel(queryId, createNeverAbortedSignal())).catch(() => {});
        throw error;
      }
      return turn;
    } catch (error) {
      turn[Symbol.dispose]();
      throw error;
    }
  }

  /** Cancels a query; if the query waits for consent, consent is declined. */
  async cancel(queryId: bigint, signal: AbortSignal): Promise<void> {
    await this.#overlay.call("Cancel", "t", [queryId], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /**
   * Answers a question. `question` is the question's number from the signal ConfirmationNeeded; undefined if the signal
   * contains none.
   */
  async respond(
    queryId: bigint,
    question: number | undefined,
    isApproved: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    if (question === undefined)
      await this.#overlay.call("Respond", "tb", [queryId, isApproved], limits);
    else await this.#overlay.call("RespondTo", "tub", [queryId, question, isApproved], limits);
  }

  async #ask(request: OverlayRequest): Promise<bigint> {
    const limits = { signal: createNeverAbortedSignal(), timeoutMs: ANSWER_MS_MAX };
    const args = [request.prompt, toBusOptions(request)];
    const [queryId] = await this.#overlay.call("Ask", "sa{sv}", args, limits);
    if (typeof queryId !== "bigint") throw unexpectedAnswer(undefined);
    return queryId;
  }

  async status(signal: AbortSignal): Promise<ReadonlyMap<string, BusVariant>> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    const [status] = await this.#overlay.call("GetStatus", "", [], limits);
    if (!(status instanceof Map)) throw unexpectedAnswer(undefined);
    return status;
  }
}

/** Creates a signal that never aborts, for calls that must not be aborted. */
function createNeverAbortedSignal(): AbortSignal {
  return new AbortController().signal;
}

function toBusOptions(request: OverlayRequest): Map<string, BusVariant> {
  const { lane, myStuff, scopes, model, history } = request;
  const found = new Map<string, BusVariant>([["lane", { signature: "s", value: lane }]]);
  if (myStuff) found.set("my_stuff", { signature: "b", value: true });
  if (scopes !== undefined) found.set("scopes", { signature: "as", value: [...scopes] });
  if (model !== undefined) found.set("model_hint", { signature: "s", value: model });
  if (history.length > 0)
    found.set("history_json", { signature: "s", value: JSON.stringify(history) });
  return found;
}

/** Parsers for the arguments that follow the query's id in each signal. They return undefined for invalid arguments. */
const signalReaders: Readonly<
  Record<string, (args: readonly BusValue[]) => OverlayEvent | undefined>
> = {
  Started: ([meta]) => ({ type: "started", meta: parseJsonOrNull(meta) }),
  Token: ([text]) => (typeof text === "string" ? { type: "token", text } : undefined),
  ConfirmationNeeded: ([spec]) => ({ type: "confirmation", spec: parseJsonOrNull(spec) }),
  Finished: ([status, detail]) => {
    const known = finishedStatuses.find((name) => name === status);
    return known && { type: "finished", status: known, detail: parseJsonOrNull(detail) };
  },
};

/** Parses JSON and returns null if it is invalid: a question that cannot be parsed must still be declined. */
function parseJsonOrNull(text: BusValue | undefined): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
