import { isAbortError } from "../../../base/errors.ts";
import type { OverlayClient, OverlayRequest } from "../../../client/bus/overlay-client.ts";
import { type FinishedStatus, parseTurnEnd } from "../../../client/bus/overlay-wire.ts";
import { ChatError } from "../../../client/rest/chat-client.ts";
import type { Cli } from "../../cli.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import type { ChatBackendEvent } from "../chat-backend.ts";
import { answerQuestion, type Prompter } from "./answer-question.ts";

/** What a turn told of itself, as far as it came: JSON as it was. */
export interface TurnRecord {
  meta?: unknown;
  status?: FinishedStatus;
  detail?: unknown;
}

/** Whoever pressed Ctrl-C does not wait long for the companion to hear of it; a query ends with its connection. */
const CANCEL_MS_MAX = 3000;

/**
 * Asks the companion, and has the person asked what it needs. Rejects with ChatError for a turn that failed, as
 * OverlayClient does, and with the signal's reason; whoever leaves early has cancelled the query.
 */
export async function* runTurn(
  cli: Cli,
  overlay: OverlayClient,
  request: OverlayRequest,
  prompter: Prompter,
  record: TurnRecord,
  signal: AbortSignal,
): AsyncGenerator<ChatBackendEvent> {
  using turn = await overlay.start(request, signal);
  let isOver = false;
  try {
    for (;;) {
      const event = await turn.next(signal);
      if (event.type === "token") yield { type: "text", text: event.text };
      else if (event.type === "started") record.meta = event.meta;
      else if (event.type === "confirmation")
        yield {
          type: "question",
          ask: () => answerQuestion(cli, overlay, turn, event.spec, prompter, signal),
        };
      else {
        isOver = true;
        record.status = event.status;
        record.detail = event.detail;
        yield toEndEvent(event.status, event.detail);
        return;
      }
    }
  } catch (error) {
    // A companion that has gone is not to be started for a query that it does not know.
    isOver ||= !isAbortError(error);
    throw error;
  } finally {
    if (!isOver)
      await overlay.cancel(turn.queryId, AbortSignal.timeout(CANCEL_MS_MAX)).catch(() => {});
  }
}

/** Throws ChatError where the turn failed. */
function toEndEvent(status: FinishedStatus, document: unknown): ChatBackendEvent {
  const { code, message, model, finishReason, usage } = parseTurnEnd(document);
  if (status === "denied") return { type: "denied", message: describeDenial(code, message) };
  if (status === "completed")
    return { type: "end", model: model ?? null, finishReason, usage: usage ?? null };
  const text = message === "" ? `the answer was ${status}` : message;
  throw new ChatError(status === "cancelled" ? "cancelled" : code, sanitizeLine(text));
}

function describeDenial(code: string, message: string): string {
  if (code === "declined") return "you did not allow it; the answer ends here";
  if (code === "expired") return "nobody answered in time; the answer ends here";
  return sanitizeLine(message === "" ? `it was not allowed (${code})` : message);
}
