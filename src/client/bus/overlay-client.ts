import { raceWithAbort } from "../../base/race-with-abort.ts";
import type { BusValue, BusVariant, SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { companionEnded } from "./connection-errors.ts";
import { unexpectedAnswer } from "./json-fields.ts";
import { type OverlayEvent, OverlayTurn } from "./overlay-turn.ts";
import { finishedStatuses } from "./overlay-wire.ts";

export interface OverlayRequest {
  readonly prompt: string;
  /** agent: tools and context, one turn. chat: a conversation. */
  readonly lane: "agent" | "chat";
  readonly myStuff: boolean;
  /** Undefined: the companion's default. */
  readonly model: string | undefined;
  /** Of the chat lane: what was said before. */
  readonly history: readonly { readonly role: string; readonly content: string }[];
}

const ANSWER_MS_MAX = 30_000;

/** Overlay1. Rejects with BerthErrors, see `busFailure`; JSON comes as it is, for `overlay-wire.ts` to read. */
export class OverlayClient {
  readonly #overlay: BusInterface;

  constructor(bus: SessionBus) {
    this.#overlay = new BusInterface(bus, "dev.assistant.Overlay1");
  }

  /** Asks, having subscribed before, so that nothing of the turn is missed. Whoever gets it disposes of it. */
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
        // Whoever left did not wait for the number, without which nobody can end the query.
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

  /** Of a query that waits for consent this is the answer no. */
  async cancel(queryId: bigint, signal: AbortSignal): Promise<void> {
    await this.#overlay.call("Cancel", "t", [queryId], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** `question`: only this one of the query's; undefined where the companion does not number them. */
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

/** The signal of a call that has its end without anybody who waits for it. */
function createNeverAbortedSignal(): AbortSignal {
  return new AbortController().signal;
}

function toBusOptions(request: OverlayRequest): Map<string, BusVariant> {
  const { lane, myStuff, model, history } = request;
  const found = new Map<string, BusVariant>([["lane", { signature: "s", value: lane }]]);
  if (myStuff) found.set("my_stuff", { signature: "b", value: true });
  if (model !== undefined) found.set("model_hint", { signature: "s", value: model });
  if (history.length > 0)
    found.set("history_json", { signature: "s", value: JSON.stringify(history) });
  return found;
}

/** What comes behind the number of the query, by signal; undefined for what is none of these. */
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

/** Null for what is no JSON: a question that cannot be read is still one, and is answered with no. */
function parseJsonOrNull(text: BusValue | undefined): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
